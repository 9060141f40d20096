import { billingErrors } from "../account/billing/errors.ts";
import { ledgerErrors, PAYMENT_CODES } from "../account/ledger/errors.ts";
import { noticeErrors } from "../account/notices/errors.ts";
import { userErrors } from "../account/users/errors.ts";
import { chatErrors } from "../agents/chat/errors.ts";
import { agentErrors } from "../agents/definitions/errors.ts";
import { runErrors } from "../agents/runs/errors.ts";
import { toolErrors } from "../agents/tools/errors.ts";
import { triggerErrors } from "../agents/triggers/errors.ts";
import { contractErrors } from "../api/contract/errors.ts";
import { httpErrors } from "../api/http/errors.ts";
import { gatewayErrors } from "../gateway/models/errors.ts";
import { errors } from "../kernel/errors.ts";
import { type ErrorShape, failure, type PurserError } from "../kernel/purser-error.ts";
import { backupErrors } from "../operator/backup/backup.service.ts";
import { operatorErrors } from "../operator/operator.routes.ts";
import { vaultErrors } from "../vault/errors.ts";

/** Errors of the process as a whole. */
export const appErrors = {
  stopping: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "overloaded",
      message: "This node stops and could not wait for the end of the answer. Send the request again.",
      retry_after_s: 1,
    }),
  noWorker: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "overloaded",
      message: "Runs are queued and no worker takes them. Start a node whose PURSER_ROLE is worker or all, then retry.",
      retry_after_s: 5,
    }),
};

/** Arguments for any failure: its status, type and code do not depend on them. */
const LIST = ["…"];
const ARGUMENTS = [
  ["…", "…", "…"],
  ["…", LIST],
  [LIST, LIST],
];

/** Every failure that a caller can expect. Two are left out that have the code of a run or of a step. */
export const ERROR_SHAPES: readonly Pick<ErrorShape, "status" | "type" | "code">[] = listShapes();

/** Metrics of errors start at 0 for each code: the first failure after a start counts as an increase, too. */
export const ERROR_CODES = [...new Set(ERROR_SHAPES.map(({ code }) => code))].sort();

function listShapes(): ErrorShape[] {
  const { payment, ...of_ledger } = ledgerErrors;
  const { runFailed: _run, ...of_runs } = runErrors;
  const { serverUnusable: _step, ...of_tools } = toolErrors;
  const figures = { required: 0, available: 0, held: 0, shortfall: 0 };
  const others = {
    ...errors,
    ...contractErrors,
    ...httpErrors,
    ...userErrors,
    ...of_ledger,
    ...billingErrors,
    ...noticeErrors,
    ...vaultErrors,
    ...gatewayErrors,
    ...of_tools,
    ...of_runs,
    ...agentErrors,
    ...triggerErrors,
    ...chatErrors,
    ...operatorErrors,
    ...backupErrors,
    ...appErrors,
  };
  return [
    ...PAYMENT_CODES.map((code) => payment(code, figures, { may_subscribe: true, overage: "off" }).shape),
    ...Object.values(others).map((make) => getShape(make as (...values: unknown[]) => PurserError)),
  ];
}

function getShape(make: (...values: unknown[]) => PurserError): ErrorShape {
  for (const values of ARGUMENTS) {
    try {
      return make(...values).shape;
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }
  throw new Error(`no arguments for ${make}`);
}
