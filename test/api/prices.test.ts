import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, expectCleanAudit, type Lab, type LabModel, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, type UpstreamUsage } from "../support/upstream.ts";

// Prices by class (contract 4.5): the hold and the charge of a call, and its explanation.

const CHAT = "/api/v1/chat/completions";
const GRANT = 10_000_000;
const CLASSES: LabModel = {
  id: "lab/classes",
  input_rate: 1,
  cached_input_rate: 0.1,
  cache_write_rate: 1.25,
  cache_write_1h_rate: 2,
  output_rate: 5,
  tiers: [
    { above_input_tokens: 1_000, input_rate: 2, cached_input_rate: 0.2, cache_write_rate: 2.5, output_rate: 7.5 },
  ],
};
const PLAIN: LabModel = { id: "lab/plain", input_rate: 1, output_rate: 5 };
const WRITES: LabModel = { ...PLAIN, id: "lab/writes", cache_write_rate: 1.25, cache_write_1h_rate: 2 };
const OFFER: LabModel = {
  ...PLAIN,
  id: "lab/offer",
  prices: [{ valid_from: "2027-01-01", valid_until: "2027-02-01", input_rate: 0.5, output_rate: 2 }],
};

const usage = (prompt_tokens: number, completion_tokens: number, details: object): UpstreamUsage => ({
  prompt_tokens,
  completion_tokens,
  prompt_tokens_details: details,
});
/** 100 fresh, 600 cached, 200 written for minutes, 100 for an hour; 10 generated. */
const MIX = usage(1_000, 10, { cached_tokens: 600, cache_write_tokens: 300, cache_write_1h_tokens: 100 });

function withPricing(cache_pricing: string) {
  const found = {} as { lab: Lab; user: Client };
  beforeAll(async () => {
    const env = { PURSER_TEST_CLOCK: "2026-12-31T23:59:00Z" };
    found.lab = await startLab([CLASSES, PLAIN, WRITES, OFFER], { settings: { cache_pricing }, env });
    found.user = await found.lab.service.newUser({ trial: false, tokens: GRANT });
  });
  afterAll(async () => {
    await expectCleanAudit(found.lab.service);
    await found.lab.stop();
  });
  const call = async (model: string, reported: UpstreamUsage, request_id: string) => {
    found.lab.upstream.answer(completion("x", reported));
    const { body } = await found.user.post(CHAT, ask(model, { max_tokens: 10 }), { "X-Request-Id": request_id });
    return body.usage;
  };
  const explain = async (request_id: string) => (await found.user.get(`/api/v1/billing/explain/${request_id}`)).body;
  return { found, call, explain };
}

describe("prices by class, like the provider's", () => {
  const { found, call, explain } = withPricing("provider");

  it("bill each class at its rate, rounded once, and show cached and written tokens", async () => {
    expect(await call("lab/classes", MIX, "mix")).toMatchObject({
      prompt_tokens: 1_000,
      prompt_tokens_details: { cached_tokens: 600, cache_write_tokens: 300, cache_write_1h_tokens: 100 },
      cost_tokens: 660, // 100 + 60 + 250 + 200 + 50
    });
  });

  it("are explained with a line for each class, at the rates of the call", async () => {
    await call("lab/classes", MIX, "explained");
    expect(await explain("explained")).toMatchObject({
      rates: { input_rate: 1, cached_input_rate: 0.1, cache_write_rate: 1.25, cache_write_1h_rate: 2, output_rate: 5 },
      priced: [
        { tokens_of: "input", tokens: 100, rate: 1, amount: "100" },
        { tokens_of: "cached_input", tokens: 600, rate: 0.1, amount: "60" },
        { tokens_of: "cache_write", tokens: 200, rate: 1.25, amount: "250" },
        { tokens_of: "cache_write_1h", tokens: 100, rate: 2, amount: "200" },
        { tokens_of: "output", tokens: 10, rate: 5, amount: "50" },
      ],
      rounding: { exact: "660", rounded_up_by: "0" },
      cost_tokens: 660,
    });
  });

  it("are those of the tier that the whole input reaches", async () => {
    const long = usage(2_000, 10, { cached_tokens: 1_000, cache_write_tokens: 400 });
    expect(await call("lab/classes", long, "long")).toMatchObject({ cost_tokens: 2_475 }); // 1,200 + 200 + 1,000 + 75
    expect((await explain("long")).rates).toMatchObject({ input_rate: 2, cached_input_rate: 0.2, output_rate: 7.5 });
    const at_step = usage(1_000, 10, { cached_tokens: 0 });
    expect(await call("lab/classes", at_step, "step")).toMatchObject({ cost_tokens: 1_050 });
  });

  it("hold a call for the most expensive class that it can reach", async () => {
    await call("lab/classes", MIX, "held");
    const { estimate, hold } = await explain("held");
    expect(estimate).toMatchObject({ max_output_tokens: 10, input_rate: 2, output_rate: 5 });
    expect(estimate.cost_tokens).toBe(estimate.input_tokens * 2 + 50);
    expect(hold.held_tokens).toBe(estimate.cost_tokens);
  });

  it("hold a call for the most expensive tier that it can reach", async () => {
    found.lab.upstream.answer(completion("x", usage(1_100, 10, {})));
    const content = "word ".repeat(1_000);
    const request = { model: "lab/classes", messages: [{ role: "user", content }], max_tokens: 10 };
    await found.user.post(CHAT, request, { "X-Request-Id": "held-long" });
    const { estimate } = await explain("held-long");
    expect(estimate.input_tokens).toBeGreaterThan(1_000);
    expect(estimate).toMatchObject({ input_rate: 2.5, output_rate: 7.5 });
  });

  it("of a model without such rates follow the seed's formula", async () => {
    expect(await call("lab/plain", MIX, "plain")).toMatchObject({
      prompt_tokens_details: { cached_tokens: 600, cache_write_tokens: 300 },
      cost_tokens: 1_050,
    });
  });

  it("of a model with a rate for cache writes and none for cached input follow the seed's formula too", async () => {
    expect(await call("lab/writes", MIX, "writes")).toMatchObject({ cost_tokens: 1_050 });
    expect((await explain("writes")).rates).toMatchObject({ input_rate: 1, cache_write_rate: 1 });
    const { body } = await found.user.get("/api/v1/models/lab/writes");
    expect(body).toMatchObject({ input_rate: 1, cached_input_rate: 1, cache_write_rate: 1, cache_write_1h_rate: 1 });
  });

  it("count classes that exceed the prompt as at most the prompt", async () => {
    const wrong = usage(100, 0, { cached_tokens: 80, cache_write_tokens: 80 });
    expect(await call("lab/classes", wrong, "wrong")).toMatchObject({
      prompt_tokens_details: { cached_tokens: 80, cache_write_tokens: 20 },
      cost_tokens: 33, // 8 + 25
    });
  });

  it("are shown with the model, its tiers and the price list", async () => {
    expect((await found.user.get("/api/v1/models/lab/classes")).body).toMatchObject({
      input_rate: 1,
      cached_input_rate: 0.1,
      cache_write_rate: 1.25,
      cache_write_1h_rate: 2,
      output_rate: 5,
      tiers: [
        { above_input_tokens: 1_000, input_rate: 2, cache_write_rate: 2.5, cache_write_1h_rate: 2, output_rate: 7.5 },
      ],
      cost_multiplier: 2,
    });
  });

  it("are in the usage export", async () => {
    const other = await found.lab.service.newUser({ trial: false, tokens: GRANT });
    found.lab.upstream.answer(completion("x", MIX));
    await other.post(CHAT, ask("lab/classes"));
    const [head, line] = (await other.get("/api/v1/users/me/usage?format=csv&days=1")).body.trimEnd().split("\r\n");
    const column = (name: string) => line.split(",")[head.split(",").indexOf(name)];
    expect(["input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens"].map(column)).toEqual([
      ...["1000", "600", "300", "10"],
    ]);
  });

  it("change on their date, and each charge keeps its rates and names its price list", async () => {
    await call("lab/offer", usage(100, 10, {}), "before-the-day");
    await found.lab.service.admin.request("PUT", "/api/v1/admin/clock", { now: "2027-01-01T00:00:00Z" });
    expect(await call("lab/offer", usage(100, 10, {}), "on-the-day")).toMatchObject({ cost_tokens: 70 });
    const [before, after] = [await explain("before-the-day"), await explain("on-the-day")];
    expect(before).toMatchObject({ cost_tokens: 150, rates: { input_rate: 1, output_rate: 5 } });
    expect(after).toMatchObject({ cost_tokens: 70, rates: { input_rate: 0.5, output_rate: 2 } });
    expect(after.rates.version).not.toBe(before.rates.version);
    expect((await found.user.get("/api/v1/models/lab/offer")).body.price_version).toBe(after.rates.version);
  });
});

describe("flat prices", () => {
  const { found, call, explain } = withPricing("flat");

  it("follow the seed's formula for every class, and still show cached and written tokens", async () => {
    expect(await call("lab/classes", MIX, "flat")).toMatchObject({
      prompt_tokens_details: { cached_tokens: 600, cache_write_tokens: 300 },
      cost_tokens: 1_050,
    });
    expect((await explain("flat")).rates).toMatchObject({ cached_input_rate: 1, cache_write_rate: 1 });
  });

  it("are the rates that the model shows", async () => {
    const { body } = await found.user.get("/api/v1/models/lab/classes");
    expect(body).toMatchObject({ input_rate: 1, cached_input_rate: 1, cache_write_rate: 1, output_rate: 5 });
  });
});
