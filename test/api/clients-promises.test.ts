import { beforeEach, expect, it } from "vitest";
import { useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion } from "../support/upstream.ts";

// Promises of contract 4.11 and 4.12 that are the same for Responses and Messages.

const CALLS: [string, object][] = [
  ["/api/v1/responses", { model: "lab/plain", input: "go", max_output_tokens: 50 }],
  ["/api/v1/messages", { model: "lab/plain", max_tokens: 50, messages: [{ role: "user", content: "go" }] }],
];

let user: Client;
const lab = useLab();
beforeEach(async () => {
  lab.upstream.answer(completion());
  lab.upstream.requests = [];
  user = await lab.service.newUser({ trial: false, tokens: 100_000 });
});

it.each(CALLS)("%s is held and explained like a chat completion", async (path, body) => {
  const chat = { model: "lab/plain", max_tokens: 50, messages: [{ role: "user", content: "go" }] };
  const explained = async (of_path: string, request: object) => {
    const { headers } = await user.post(of_path, request);
    const { body: found } = await user.get(`/api/v1/billing/explain/${headers.get("x-request-id")}`);
    const { model, estimate, hold, priced, rounding, cost_tokens } = found;
    return { model, estimate, held: hold.amount_tokens, priced, rounding, cost_tokens };
  };
  expect(await explained(path, body)).toEqual(await explained("/api/v1/chat/completions", chat));
});

it.each(CALLS)("%s with an Idempotency-Key is one charge, streamed and not", async (path, body) => {
  for (const stream of [false, true]) {
    const key = { "Idempotency-Key": `${path} ${stream}` };
    const [first, again] = [
      await user.post(path, { ...body, stream }, key),
      await user.post(path, { ...body, stream }, key),
    ];
    expect(again.body).toEqual(first.body);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
  }
  expect(lab.upstream.requests).toHaveLength(2);
});

it("Messages: an error has Purser's code, param and metadata next to Anthropic's fields", async () => {
  const [, [path, body]] = CALLS as [unknown, [string, object]];
  const poor = await lab.service.newUser({ trial: false });
  expect((await poor.post(path, body)).body).toMatchObject({
    type: "error",
    request_id: expect.any(String),
    error: {
      type: "billing_error",
      code: "out_of_tokens",
      param: null,
      metadata: { available: 0, remedies: expect.any(Array) },
    },
  });
  expect((await user.post(path, { ...body, max_tokens: 0 })).body.error).toMatchObject({
    code: "invalid_value",
    param: "max_tokens",
  });
});

it("count_tokens calls no provider", async () => {
  const messages = [{ role: "user", content: "go" }];
  const { status } = await user.post("/api/v1/messages/count_tokens", { model: "lab/plain", messages });
  expect([status, lab.upstream.requests.length]).toEqual([200, 0]);
});
