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

interface ExplainRequestProps {
  request_id: string;
  entry: number | undefined;
  onClose: () => void;
}

/**
 * Explains a request's charge. Several charges can have one request id; `entry` is a ledger line of one of them. Without
 * it, all charges of the newest one's run are explained.
 */
export function ExplainRequest({ request_id, entry, onClose }: ExplainRequestProps) {
  const { data, error, isError } = useQuery(explanationQuery(request_id));
  const charges = data === undefined ? undefined : chargesOf(data);
  const newest = charges?.at(-1);
  const chosen = charges?.find(({ legs }) => legs.some(({ seq }) => seq === entry)) ?? newest;
  const of_run = charges?.filter(({ run_id }) => run_id !== null && run_id === newest?.run_id) ?? [];
  return (
    <Explained onClose={onClose} request_id={request_id} error={isError ? error : null}>
      {entry === undefined && of_run.length > 1 ? (
        <Charges charges={of_run} />
      ) : (
        chosen !== undefined && <ChargeDetail charge={chosen} />
      )}
    </Explained>
  );
}

/** The price of one call among the charges of its request. */
export function RequestCost({ request_id, hold_id }: { request_id: string; hold_id: string }) {
  const { data, error } = useQuery(explanationQuery(request_id));
  if (error !== null) return <ProblemNotice error={error} />;
  if (data === undefined) return <Skeleton lines={5} />;
  const charge = chargesOf(data).find((each) => each.hold_id === hold_id);
  return charge === undefined ? <p className="text-muted">There is no charge.</p> : <ChargeDetail charge={charge} />;
}

interface ExplainRunProps {
  run_id: string;
  steps: readonly Step[];
  /** The step; null: the whole run. */
  index: number | null;
  onClose: () => void;
}

/** Explains the charges of a run or of one step. Charged steps and charges have the same order. */
export function ExplainRun({ run_id, steps, index, onClose }: ExplainRunProps) {
  const request = useQuery(runChargesQuery(run_id));
  const request_id = request.data ?? null;
  const explanation = useQuery({ ...explanationQuery(request_id ?? ""), enabled: request_id !== null });
  const charges = explanation.data === undefined ? [] : chargesOf(explanation.data).filter((c) => c.run_id === run_id);
  const charged = steps.filter((step) => step.usage !== null && step.usage.cost_tokens > 0);
  const place = charged.findIndex((step) => step.index === index);
  const chosen = charges.filter((charge) => (charge.cost_tokens ?? 0) > 0)[place];
  const matches = chosen !== undefined && chosen.cost_tokens === charged[place]?.usage?.cost_tokens;
  const nothing = (request.isSuccess && request_id === null) || (explanation.isSuccess && charges.length === 0);
  return (
    <Explained onClose={onClose} request_id={request_id} error={request.error ?? explanation.error}>
      {nothing ? (
        <p className="text-muted">There is no charge.</p>
      ) : matches ? (
        <ChargeDetail charge={chosen} />
      ) : (
        explanation.isSuccess && <Charges charges={charges} />
      )}
    </Explained>
  );
}

/** The most charges that the API explains at once. */
const MOST_EXPLAINED = 100;

/** Several charges and their sum. */
function Charges({ charges }: { charges: readonly Charge[] }) {
  const sum = charges.reduce((total, { cost_tokens }) => total + (cost_tokens ?? 0), 0);
  return (
    <>
      <p>
        {charges.length === MOST_EXPLAINED && "The newest "}
        {count(charges.length, "call")}, {count(sum, "token")} in total, worth {dollars(sum)} at the standard rate.
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

interface ExplainedProps {
  request_id: string | null;
  error: unknown;
  onClose: () => void;
  children: ReactNode;
}
function Explained({ request_id, error, onClose, children }: ExplainedProps) {
  return (
    <Dialog title="Cost explained" onClose={onClose} wide>
      {error !== null && error !== undefined ? (
        <ProblemNotice error={error} />
      ) : children ? (
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

const KINDS = {
  input: "Input",
  cached_input: "Input from the provider's cache",
  cache_write: "Input written to the provider's cache",
  cache_write_1h: "Input written to the provider's cache for an hour",
  output: "Output",
} as const;

function ChargeDetail({ charge }: { charge: Charge }) {
  const { cost_tokens, rounding, hold } = charge;
  if (charge.status === "open" || cost_tokens === null) {
    return (
      <p className="text-muted">
        The call is still running. {hold !== null && `It holds ${number(hold.held_tokens)} tokens.`}
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
        {charge.from_progress && " The call was lost. This is the last known amount of generated text."}
        {charge.estimated &&
          !charge.from_progress &&
          " The provider's counts did not arrive, so the counts are estimates."}
      </p>
      <table className="w-full">
        <caption className="sr-only">Calculation of the price</caption>
        <thead>
          <tr className="border-b border-line text-xs text-muted">
            <th scope="col" className="py-1.5 text-left font-medium">
              Tokens
            </th>
            <th scope="col" className="py-1.5 text-right font-medium">
              Count
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
                Rounded up once, to a whole token
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
      "Estimate",
      `at most ${number(cost_tokens)}: ${number(input_tokens)} in, up to ${number(max_output_tokens)} out`,
    ]);
  }
  if (hold !== null) facts.push(["Held during the call", number(hold.held_tokens)]);
  if (overage_tokens !== null && overage_tokens > 0) facts.push(["Overage", number(overage_tokens)]);
  if (absorbed_tokens !== null && absorbed_tokens > 0)
    facts.push(["Not charged", `${number(absorbed_tokens)}, beyond the balance`]);
  const lines = legs.map(({ seq, amount }) => `line ${number(seq)} (${number(amount).replace("-", "−")})`);
  facts.push(["Ledger", lines.length === 0 ? "—" : lines.join(", ")]);
  if (rates !== null && rates.version !== null) facts.push(["Price list", rates.version]);
  return facts;
}
