import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStream } from "../support/event-stream.ts";
import { ask, charges, expectCleanAudit, type Lab, settledBalance, startLab } from "../support/lab.ts";
import { completion } from "../support/upstream.ts";

/** Models with the extreme rates, and odd ones between. */
const RATES: [input: string, output: string, cached?: string, written?: string][] = [
  ["0.000001", "0.000002"],
  ["0.333333", "1.000001"],
  ["0", "0.999999", "0"],
  ["1", "2", "0.1", "1.25"],
  ["12.345678", "98.765432", "1.234567", "24.691356"],
  ["0.07", "0.29", "0.007"],
];
const micro = (rate: string) => BigInt(Math.round(Number(rate) * 1e6));
const GRANT = 1_000_000_000_000;

let lab: Lab;
beforeAll(async () => {
  const models = RATES.map(([input, output, cached, written], index) => ({
    id: `lab/m${index}`,
    input_rate: Number(input),
    output_rate: Number(output),
    // Reports of up to twice these are believed.
    context_window: 2_500_000,
    max_output_tokens: 2_500_000,
    ...(cached === undefined ? {} : { cached_input_rate: Number(cached) }),
    ...(written === undefined ? {} : { cache_write_rate: Number(written) }),
  }));
  lab = await startLab(models, { settings: { cache_pricing: "provider" } });
});
afterAll(() => lab.stop());

/** Contract 4's sum in integers, rounded up once. Written separately here, so that an error of the service shows. */
function priceOf(model: number, usage: Record<"input" | "cached" | "written" | "output", number>): number {
  const [input, output, cached = input, written = input] = RATES[model] ?? ["0", "0"];
  const millionths =
    BigInt(usage.input - usage.cached - usage.written) * micro(input) +
    BigInt(usage.cached) * micro(cached) +
    BigInt(usage.written) * micro(written) +
    BigInt(usage.output) * micro(output);
  return Number((millionths + 999_999n) / 1_000_000n);
}

const call = fc.record({
  model: fc.nat(RATES.length - 1),
  // Purser does not believe a report without any token, so there is always some input.
  input: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 5_000_000 })),
  cached: fc.nat(100),
  written: fc.nat(100),
  output: fc.oneof(fc.nat(20), fc.nat(5_000_000)),
  streamed: fc.boolean(),
});

describe("the price, end to end (contract 4)", () => {
  it("is the exact sum rounded up once, the same in answer, ledger, usage, key and balance", async () => {
    const property = fc.asyncProperty(fc.array(call, { minLength: 1, maxLength: 8 }), async (calls) => {
      const user = await lab.service.newUser({ trial: false, tokens: GRANT });
      const expected: number[] = [];
      for (const { model, input, output, streamed, ...rest } of calls) {
        const cached = Math.min(rest.cached, input);
        const written = Math.min(rest.written, input - cached);
        const details = { prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: written } };
        lab.upstream.answer(completion("x", { prompt_tokens: input, completion_tokens: output, ...details }));
        const price = priceOf(model, { input, cached, written, output });
        expect(await costOf(user, `lab/m${model}`, streamed)).toBe(price);
        expected.push(price);
      }
      const sum = expected.reduce((total, price) => total + price, 0);
      expect(await settledBalance(user)).toBe(GRANT - sum);
      const charged = (await charges(user)).map((entry) => -entry.amount).reverse();
      expect(charged).toEqual(expected.filter((price) => price > 0)); // a free call leaves no entry
      const usage = (await user.get("/api/v1/users/me/usage?days=1")).body;
      const tokens = calls.reduce((total, { input, output }) => total + input + output, 0);
      expect([usage.total_cost_tokens, usage.total_tokens_used]).toEqual([sum, tokens]);
      expect(usage.daily_usage.at(-1).requests).toBe(calls.length);
      const [key] = (await user.get("/api/v1/api-keys")).body.api_keys;
      expect(key.spent_tokens).toBe(sum);
    });
    await fc.assert(property, { numRuns: 25, endOnFailure: true });
    await expectCleanAudit(lab.service);
  });
});

async function costOf(user: { key: string; post: Lab["service"]["admin"]["post"] }, model: string, streamed: boolean) {
  if (!streamed) return (await user.post("/api/v1/chat/completions", ask(model))).body.usage.cost_tokens;
  const events = await (await openStream(lab.service, user, ask(model))).rest();
  return JSON.parse(events.at(-2) ?? "").usage.cost_tokens;
}
