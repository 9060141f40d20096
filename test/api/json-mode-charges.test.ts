import { beforeEach, expect, test } from "vitest";
import { openStream, textOf } from "../support/event-stream.ts";
import { ask, charges, settledBalance, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, delta, event, hanging } from "../support/upstream.ts";

// JSON answers that the service checks (contract 4.9.2): the hold and the charge of both of their calls.

const GRANT = 10_000_000;
const OUTPUT_CAP = 60_000;
const TIERED = {
  id: "lab/tiered",
  input_rate: 1,
  cached_input_rate: 0.1,
  cache_write_rate: 1.25,
  output_rate: 5,
  max_output_tokens: OUTPUT_CAP,
  supports: { tools: true },
  tiers: [{ above_input_tokens: 2_000, input_rate: 10, cached_input_rate: 1, output_rate: 50 }],
  upstream_usd_per_million: { input: 1, output: 5 },
};
const VALID = '{"berth":7}';
const SCHEMA = { type: "object", properties: { berth: { type: "integer" } }, required: ["berth"] };
const response_format = { type: "json_schema", json_schema: { name: "berth", schema: SCHEMA } };
const usageOf = (prompt_tokens: number, completion_tokens: number) => ({ prompt_tokens, completion_tokens });
const role = event({ choices: [{ index: 0, delta: { role: "assistant" }, finish_reason: null }] });

let user: Client;
const lab = useLab([TIERED], { settings: { cache_pricing: "provider" } });
beforeEach(async () => {
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: GRANT });
});

const askJson = (fields: Record<string, unknown> = {}) => ask("lab/tiered", { response_format, ...fields });
const post = (body: object, request_id: string, caller = user) =>
  caller.post("/api/v1/chat/completions", body, { "X-Request-Id": request_id });

test.each([false, true])(
  "a corrected answer costs two calls, each in the tier of its own input; stream: %s",
  async (stream) => {
    lab.upstream.answer(completion("no", usageOf(1_500, 10)), completion(VALID, usageOf(1_520, 20)));
    const body = askJson({ max_tokens: 500, stream });
    const answer = await post(body, `corrected-${stream}`);
    expect(answer.status).toBe(200);
    expect(lab.upstream.requests).toHaveLength(2);
    // 3,020 × 1 + 30 × 5, although the sum of both inputs is above the tier.
    expect((await charges(user)).map(({ amount }) => amount)).toEqual([-3_170]);
    const explained = (await user.get(`/api/v1/billing/explain/corrected-${stream}`)).body;
    expect(explained).toMatchObject({ cost_tokens: 3_170, rates: { input_rate: 1, output_rate: 5 } });
  },
);

test("an answer is not corrected if the correction would be in a more expensive tier", async () => {
  lab.upstream.answer(completion("no", usageOf(1_800, 10)));
  const answer = await post(askJson({ max_tokens: 500 }), "near-the-step");
  expect(answer.body.choices[0].message.content).toBe("no");
  expect(lab.upstream.requests).toHaveLength(1);
  expect(answer.body.usage.cost_tokens).toBe(1_850);
});

test("two calls above the step are billed in its tier", async () => {
  lab.upstream.answer(completion("no", usageOf(2_100, 10)), completion(VALID, usageOf(2_200, 10)));
  const answer = await post(askJson({ max_tokens: 500 }), "above-the-step");
  expect(answer.body.usage.cost_tokens).toBe(4_300 * 10 + 20 * 50);
});

test("without max_tokens, a small balance lowers the cap instead of a 402, and the hold covers both calls", async () => {
  const poor = await lab.service.newUser({ trial: false, tokens: 20_000 });
  const text = VALID.padEnd(40, " ");
  lab.upstream.answer(completion("no", usageOf(300, 100)), completion(text, usageOf(400, 100)));
  const answer = await post(askJson(), "poor", poor);
  expect(answer.status).toBe(200);
  const { max_tokens } = lab.upstream.requests[0]?.body ?? {};
  expect(max_tokens).toBeGreaterThan(1_000);
  expect(max_tokens).toBeLessThan(20_000 / 6);
  const { estimate, hold } = (await poor.get("/api/v1/billing/explain/poor")).body;
  // The prompt is short, so only the model's own rates apply. Each token of output may be sent back.
  expect(estimate).toMatchObject({ input_rate: 1.25, output_rate: 5, max_output_tokens: OUTPUT_CAP });
  expect(estimate.cost_tokens).toBe(Math.ceil(estimate.input_tokens * 1.25 + OUTPUT_CAP * 5));
  expect(hold.held_tokens).toBeLessThanOrEqual(20_000);
  expect(answer.body.usage.cost_tokens).toBe(700 + 200 * 5);
});

test("a caller that disconnects during a checked stream pays for the input and the output so far", async () => {
  // One write: the text is read together with the first event.
  lab.upstream.answer(hanging(role + delta("x".repeat(4_000))));
  const stream = await openStream(lab.service, user, askJson());
  expect(textOf([(await stream.next()) ?? ""])).toBe("");
  const before = lab.upstream.hangUps;
  stream.hangUp();
  await lab.upstream.until(() => lab.upstream.hangUps > before);
  const cost = GRANT - (await settledBalance(user));
  expect(cost).toBeGreaterThan(1_000 * 5);
  expect(cost).toBeLessThan(1_000 * 5 + 200);
});

test("a caller that disconnects during the correction pays for both inputs and the output so far", async () => {
  lab.upstream.answer(completion("no", usageOf(1_000, 100)), hanging(role, delta("x".repeat(400))));
  const stream = await openStream(lab.service, user, askJson());
  await stream.next();
  await lab.upstream.until(() => lab.upstream.requests.length === 2);
  const before = lab.upstream.hangUps;
  stream.hangUp();
  await lab.upstream.until(() => lab.upstream.hangUps > before);
  const cost = GRANT - (await settledBalance(user));
  // The first call, and at least the estimated input of the second one.
  expect(cost).toBeGreaterThan(1_000 + 100 * 5 + 50);
});
