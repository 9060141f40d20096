import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { Answer } from "../api/client.ts";
import { explanationQuery, runChargesQuery, type Step } from "../api/queries.ts";
import { count, decimal, dollars, instant, number } from "../format.ts";
import { Facts, Skeleton } from "../ui/basics.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

type Explanation = Answer<"GET /api/v1/billing/explain/{request_id}">;
type Charge = Explanation["others"][number];

/** Why a request cost what it cost. Of the charges that go by its id, `entry` says which is meant. */
export function ExplainRequest(props: { request_id: string; entry: number | undefined; onClose: () => void }) {
  const { request_id, entry, onClose } = props;
  const { data, error, isError } = useQuery(explanationQuery(request_id));
  const charges = data === undefined ? undefined : chargesOf(data);
  const meant = charges?.find(({ legs }) => legs.some(({ seq }) => seq === entry)) ?? charges?.at(-1);
  return (
    <Why onClose={onClose} request_id={request_id} error={isError ? error : null}>
      {meant !== undefined && <ChargeDetail charge={meant} />}
    </Why>
  );
}

interface ExplainRunProps {
  run_id: string;
  steps: readonly Step[];
  /** The step that is meant; null: the whole run. */
  index: number | null;
  onClose: () => void;
}

/** Why a run, or a step of it, cost what it cost: the steps that were charged and the charges are in the same order. */
export function ExplainRun(props: ExplainRunProps) {
  const { run_id, steps, index, onClose } = props;
  const request = useQuery(runChargesQuery(run_id));
  const request_id = request.data ?? null;
  const explanation = useQuery({ ...explanationQuery(request_id ?? ""), enabled: request_id !== null });
  const charges = explanation.data === undefined ? [] : chargesOf(explanation.data).filter((c) => c.run_id === run_id);
  const charged = steps.filter((step) => step.usage !== null && step.usage.cost_tokens > 0);
  const place = charged.findIndex((step) => step.index === index);
  const meant = charges.filter((charge) => (charge.cost_tokens ?? 0) > 0)[place];
  const matches = meant !== undefined && meant.cost_tokens === charged[place]?.usage?.cost_tokens;
  const nothing = (request.isSuccess && request_id === null) || (explanation.isSuccess && charges.length === 0);
  return (
    <Why onClose={onClose} request_id={request_id} error={request.error ?? explanation.error}>
      {nothing ? (
        <p className="text-muted">Nothing was charged for this.</p>
      ) : matches ? (
        <ChargeDetail charge={meant} />
      ) : (
        explanation.isSuccess && <Charges charges={charges} />
      )}
    </Why>
  );
}

/** Several, with their sum. */
function Charges({ charges }: { charges: readonly Charge[] }) {
  const sum = charges.reduce((total, { cost_tokens }) => total + (cost_tokens ?? 0), 0);
  return (
    <>
      <p>
        {count(charges.length, "call")}, {count(sum, "token")} in all.
      </p>
      {charges.map((charge) => (
        <div key={charge.hold_id} className="border-t border-line pt-4">
          <ChargeDetail charge={charge} />
        </div>
      ))}
    </>
  );
}

/** Oldest first. */
function chargesOf({ request_id: _, others, ...newest }: Explanation): Charge[] {
  return [newest, ...others].toReversed();
}

interface WhyProps {
  request_id: string | null;
  error: unknown;
  onClose: () => void;
  children: ReactNode;
}
function Why({ request_id, error, onClose, children }: WhyProps) {
  const ready = Array.isArray(children) ? children.length > 0 : Boolean(children);
  return (
    <Dialog title="Why did this cost that?" onClose={onClose} wide>
      {error !== null && error !== undefined ? (
        <ProblemNotice error={error} />
      ) : ready ? (
        <div className="space-y-5">{children}</div>
      ) : (
        <Skeleton lines={5} />
      )}
      {request_id !== null && (
        <p className="mt-4 text-xs text-muted">
          Request id <code className="select-all break-all">{request_id}</code>
        </p>
      )}
    </Dialog>
  );
}

const KINDS = { input: "In", cached_input: "In, from the provider's cache", output: "Out" } as const;

function ChargeDetail({ charge }: { charge: Charge }) {
  const { cost_tokens, rounding, hold } = charge;
  if (charge.status === "open" || cost_tokens === null) {
    return (
      <p className="text-muted">
        The call has not ended yet. {hold !== null && `${number(hold.held_tokens)} tokens are held for it.`}
      </p>
    );
  }
  const priced = charge.priced.filter(({ tokens }) => tokens > 0);
  return (
    <div className="space-y-4">
      <p>
        <strong>{count(cost_tokens, "token")}</strong>, worth {dollars(cost_tokens)} at the standard rate, for a call of{" "}
        <strong>{charge.model}</strong>
        {charge.created_at !== null && ` on ${instant(charge.created_at)}`}.
        {charge.from_progress && " The call was lost: this is what was last known to have been generated."}
      </p>
      <table className="w-full">
        <caption className="sr-only">How the price came about</caption>
        <thead>
          <tr className="border-b border-line text-xs text-muted">
            <th scope="col" className="py-1.5 text-left font-medium">
              Tokens
            </th>
            <th scope="col" className="py-1.5 text-right font-medium">
              How many
            </th>
            <th scope="col" className="py-1.5 text-right font-medium">
              × rate
            </th>
            <th scope="col" className="py-1.5 text-right font-medium">
              Billed
            </th>
          </tr>
        </thead>
        <tbody>
          {priced.map(({ tokens_of, tokens, rate, amount }) => (
            <tr key={tokens_of}>
              <td className="py-1">{KINDS[tokens_of]}</td>
              <td className="py-1 text-right">{number(tokens)}</td>
              <td className="py-1 text-right">{rate}</td>
              <td className="py-1 text-right">{decimal(amount)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot className="border-t border-line">
          {rounding !== null && rounding.rounded_up_by !== "0" && (
            <tr className="text-muted">
              <td className="py-1" colSpan={3}>
                Rounded up to a whole token, once
              </td>
              <td className="py-1 text-right">{decimal(rounding.rounded_up_by)}</td>
            </tr>
          )}
          <tr className="font-semibold">
            <td className="py-1" colSpan={3}>
              Billed
            </td>
            <td className="py-1 text-right">{number(cost_tokens)}</td>
          </tr>
        </tfoot>
      </table>
      <Facts facts={factsOf(charge)} />
    </div>
  );
}

function factsOf({ estimate, hold, rates, overage_tokens, absorbed_tokens, legs }: Charge): [string, ReactNode][] {
  const facts: [string, ReactNode][] = [];
  if (estimate !== null) {
    const { cost_tokens, input_tokens, max_output_tokens } = estimate;
    facts.push([
      "Estimated before",
      `at most ${number(cost_tokens)}: ${number(input_tokens)} in, up to ${number(max_output_tokens)} out`,
    ]);
  }
  if (hold !== null) facts.push(["Held meanwhile", number(hold.held_tokens)]);
  if (overage_tokens !== null && overage_tokens > 0) facts.push(["As overage", number(overage_tokens)]);
  if (absorbed_tokens !== null && absorbed_tokens > 0)
    facts.push(["Not charged", `${number(absorbed_tokens)}: more than there was`]);
  const lines = legs.map(({ seq, amount }) => `line ${number(seq)} (${number(amount).replace("-", "−")})`);
  facts.push(["In the ledger", lines.length === 0 ? "—" : lines.join(", ")]);
  if (rates !== null && rates.version !== null) facts.push(["Price list", rates.version]);
  return facts;
}
