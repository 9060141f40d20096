import type { Log } from "../../platform/telemetry/log.ts";
import type { Metrics } from "../../platform/telemetry/metrics.ts";
import { type SpanStart, tracedAlone } from "../../platform/telemetry/tracing.ts";
import type { Charge, ChargingLedger } from "./ledger.types.ts";

/** An operation of the ledger in a trace: the wait for its batch and the batch's statement. */
function toSpan(operation: string): SpanStart {
  const attributes = { "db.system.name": "postgresql", "db.operation.name": operation };
  return { name: operation, kind: "client", attributes };
}
const HOLD = toSpan("hold");
const SETTLE = toSpan("settle");
const RELEASE = toSpan("release");

/** Adds metrics and spans to holds, settles and releases, and counts tokens for the limits. Logs absorbed tokens as an error. */
export function withChargeMetrics(
  ledger: ChargingLedger,
  { metrics, log, countTokens }: { metrics: Metrics; log: Log; countTokens(charge: Charge, tokens: number): void },
): ChargingLedger {
  return {
    async hold(request) {
      const outcome = await tracedAlone(HOLD, () => ledger.hold(request));
      if (outcome.status === "refused") metrics.modelCall("refused", 0);
      return outcome;
    },
    async settle(request) {
      const outcome = await tracedAlone(SETTLE, () => ledger.settle(request)).catch((error: Error) => {
        const { user_id, hold_id, cost_tokens } = request;
        log.error({ user_id, hold_id, cost_tokens, error }, "a charge could not be written; its hold will expire");
        throw error;
      });
      if (outcome.status === "superseded" || outcome.replayed) return outcome;
      countTokens(request, request.input_tokens + request.output_tokens);
      metrics.modelCall("settled", outcome.cost_tokens);
      metrics.modelOutput(request.model, request.output_tokens);
      metrics.upstreamCost(request.model, request.upstream_cost_micro_usd);
      const { model, input_tokens, cached_input_tokens: cached, cache_write_tokens: written } = request;
      metrics.modelInput(model, { cached, written, plain: Math.max(0, input_tokens - cached - written) });
      if (outcome.absorbed_tokens > 0) {
        const { user_id, hold_id } = request;
        metrics.absorbed(outcome.absorbed_tokens);
        log.error(
          { user_id, hold_id, absorbed_tokens: outcome.absorbed_tokens },
          "a charge exceeded what the account could bear: absorbed_tokens are not billed",
        );
      }
      return outcome;
    },
    async release(hold) {
      await tracedAlone(RELEASE, () => ledger.release(hold));
      metrics.modelCall("released", 0);
    },
  };
}
