import { expect, test } from "vitest";
import { withChargeMetrics } from "../../../src/account/ledger/charge-metrics.ts";
import type { ChargingLedger, SettleRequest } from "../../../src/account/ledger/ledger.types.ts";
import { createLog } from "../../../src/platform/telemetry/log.ts";
import { createMetrics } from "../../../src/platform/telemetry/metrics.ts";

const TOKENS = { input_tokens: 10, cached_input_tokens: 0, cache_write_tokens: 0, output_tokens: 4 };

test("the upstream cost of each settled call is counted by model, once, and only if it is known", async () => {
  const metrics = createMetrics();
  const settled = new Set<string>();
  const settle = async ({ hold_id }: SettleRequest) => {
    const replayed = settled.has(hold_id);
    settled.add(hold_id);
    return { status: "settled", replayed, cost_tokens: 1, absorbed_tokens: 0 };
  };
  const ledger = withChargeMetrics({ settle } as unknown as ChargingLedger, {
    metrics,
    log: createLog("silent"),
    countTokens() {},
  });
  const charge = (hold_id: string, upstream_cost_micro_usd: number | null) =>
    ledger.settle({ ...TOKENS, hold_id, model: "lab/plain", upstream_cost_micro_usd } as SettleRequest);
  await charge("one", 1_500_000);
  await charge("one", 1_500_000);
  await charge("two", 250_000);
  await charge("three", null);
  expect(await metrics.text()).toMatch(/^purser_upstream_cost_usd_total\{model="lab\/plain"\} 1\.75$/m);
});
