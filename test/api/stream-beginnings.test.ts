import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { ask, charges, expectCleanAudit, LAB_KEY, labConfig } from "../support/lab.ts";
import { NATIVE_ENV, nativeConfig } from "../support/native-apis/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import {
  completion,
  event,
  events,
  googleAnswer,
  hanging,
  type Reply,
  startUpstream,
  type Upstream,
} from "../support/upstream.ts";

// The first chunk of a stream (contract 4.7.3): before it, another model may answer (contract 4.8).

const CHAT = "/api/v1/chat/completions";
const COMMENT = ": OPENROUTER PROCESSING\n\n";
const GOOGLE_ERROR = `data: ${JSON.stringify({ error: { code: 503, message: "no", status: "UNAVAILABLE" } })}\n\n`;
const google = googleAnswer([{ text: "alternative" }], { promptTokenCount: 8, candidatesTokenCount: 4 });
let upstream: Upstream;
let service: Service;
let user: Client;

beforeAll(async () => {
  upstream = await startUpstream();
  const lab = labConfig(
    upstream,
    ["first", "second", "third", "fourth"].map((name) => ({ id: `lab/${name}`, input_rate: 1, output_rate: 2 })),
  );
  const native = nativeConfig(upstream);
  const limits = { ...lab.limits, fallback_after_seconds: 1 };
  const config = {
    providers: [...lab.providers, ...native.providers],
    models: [...lab.models, ...native.models],
    limits,
  };
  service = await startService({ env: { LAB_KEY, ...NATIVE_ENV }, config });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await service.stop();
  await upstream.close();
});
beforeEach(async () => {
  user = await service.newUser({ trial: false, tokens: 1_000_000 });
  upstream.requests = [];
});

it.each<[string, string, string, Reply, Reply]>([
  ["comments and then silence", "lab/first", "lab/second", hanging(COMMENT), completion("alternative")],
  [
    "a comment and then an error",
    "lab/third",
    "lab/fourth",
    events(COMMENT, event({ error: { message: "no" } })),
    completion("alternative"),
  ],
  ["headers of Google and then silence", "native/google", "native/google-2", hanging(), google],
])("%s: the next model answers, and only it is charged", async (_, model, next, first, second) => {
  upstream.answer(first, second);
  const { status, body } = await user.post(CHAT, ask(model, { models: [next], stream: true }));
  expect(status).toBe(200);
  expect(body).toContain("alternative");
  expect(body).toContain("data: [DONE]");
  expect(upstream.requests).toHaveLength(2);
  expect((await charges(user)).map((entry) => entry.model)).toEqual([next]);
});

it.each<[string, string, Reply]>([
  ["a comment", "lab/second", events(COMMENT, event({ error: { message: "no" } }))],
  ["the headers of Google", "native/google-2", events(GOOGLE_ERROR)],
])("an error after only %s is a 502 that costs nothing", async (_, model, reply) => {
  upstream.answer(reply);
  const { status, body } = await user.post(CHAT, ask(model, { stream: true }));
  expect([status, body.error?.code]).toEqual([502, "upstream_error"]);
  expect(await charges(user)).toEqual([]);
});

it("comments before the first chunk are sent with it", async () => {
  const end = event({ choices: [{ index: 0, delta: { content: "x" }, finish_reason: "stop" }] });
  upstream.answer(events(COMMENT, COMMENT, end, "data: [DONE]\n\n"));
  const { body } = await user.post(CHAT, ask("lab/fourth", { stream: true }));
  expect(body).toMatch(/^(: OPENROUTER PROCESSING\n\n){2}data: \{/);
});
