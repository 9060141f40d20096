import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { realNowMs } from "../../src/platform/lib/clock.ts";
import { charges, expectCleanAudit } from "../support/lab.ts";
import { NATIVE_ENV, NATIVE_KINDS, nativeConfig } from "../support/native-apis/lab.ts";
import { MESSAGES_IN, NOT_TOO_LONG, TOO_LONG, WAITS } from "../support/provider-errors.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { delta, events, type Reply, startUpstream, type Upstream } from "../support/upstream.ts";

// Errors of providers in each API (contract 4.7.4): clients find the code of a prompt that is too long, the provider's own
// words, and the time to wait.

let upstream: Upstream;
let service: Service;
let user: Client;
beforeAll(async () => {
  upstream = await startUpstream();
  const native = nativeConfig(upstream);
  const lab = { name: "lab", kind: "openai-compatible", base_url: upstream.url, api_key_env: "NATIVE_KEY" };
  const plain = { ...native.models[0], id: "lab/plain", provider: "lab", provider_model: "plain", name: "plain" };
  const config = { ...native, providers: [...native.providers, lab], models: [...native.models, plain] };
  service = await startService({ env: NATIVE_ENV, config });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await service.stop();
  await upstream.close();
});
beforeEach(async () => {
  user = await service.newUser({ trial: false, tokens: 10_000_000 });
});

const MODELS = ["lab/plain", ...NATIVE_KINDS.map((kind) => `native/${kind}`)];
const messages = [{ role: "user", content: "hello" }];
const REQUESTS = {
  "/api/v1/chat/completions": (model: string, stream: boolean) => ({ model, stream, messages }),
  "/api/v1/responses": (model: string, stream: boolean) => ({ model, stream, input: "hello" }),
  "/api/v1/messages": (model: string, stream: boolean) => ({ model, stream, messages, max_tokens: 500 }),
};
type Path = keyof typeof REQUESTS;
const PATHS = Object.keys(REQUESTS) as Path[];
const ask = (path: Path, model: string, stream = false) => user.post(path, REQUESTS[path](model, stream));

function failing(status: number, body: unknown, headers: Record<string, string> = {}): Reply {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const type = typeof body === "string" ? "text/html" : "application/json";
  return (response) => void response.writeHead(status, { "content-type": type, ...headers }).end(text);
}

async function expectTooLong(model: string): Promise<void> {
  for (const path of PATHS) {
    for (const stream of [false, true]) {
      const { status, body } = await ask(path, model, stream);
      expect([status, body.error?.code]).toEqual([400, "context_length_exceeded"]);
      // Claude Code and others look for these words.
      expect(body.error.message).toMatch(/prompt is too long.*maximum context length is \d+ tokens/i);
    }
  }
  expect(await charges(user)).toEqual([]);
}

describe("a prompt that is too long is 400 context_length_exceeded in each API, streamed or not:", () => {
  it.each(TOO_LONG)("%s", async (_, status, body) => {
    upstream.answer(failing(status, body));
    await expectTooLong("lab/plain");
  });

  it.each(NATIVE_KINDS)("of the kind %s", async (kind) => {
    for (const [_, status, body] of TOO_LONG.filter(([name]) => /^(?:OpenAI|Claude|Gemini)$/.test(name))) {
      upstream.answer(failing(status, body));
      await expectTooLong(`native/${kind}`);
    }
  });

  it("OpenAI's failed response in a stream", async () => {
    const error = { code: "context_length_exceeded", message: "Your input exceeds the context window of this model." };
    const response = {
      id: "resp_1",
      object: "response",
      created_at: 1,
      model: "m",
      output: [],
      status: "failed",
      error,
    };
    const failed = { type: "response.failed", sequence_number: 1, response: { ...response, usage: null } };
    upstream.answer(events(`event: response.failed\ndata: ${JSON.stringify(failed)}\n\n`));
    for (const path of PATHS) {
      const { status, body } = await ask(path, "native/openai", true);
      expect([status, body.error?.code]).toEqual([400, "context_length_exceeded"]);
    }
  });

  it.each([
    ["an event with an error", (error: object) => events(`data: ${JSON.stringify(error)}\n\n`)],
    ["an event of the name error", (error: object) => events(`event: error\ndata: ${JSON.stringify(error)}\n\n`)],
    ["one answer in place of a stream", (error: object) => failing(200, error)],
  ])("%s of status 200, before any text", async (_, replyWith) => {
    for (const [name, , body] of TOO_LONG.filter(([, , body]) => typeof body === "object" && !Array.isArray(body))) {
      upstream.answer(replyWith(body as object));
      const { status, body: answer } = await ask("/api/v1/chat/completions", "lab/plain", true);
      expect([name, status, answer.error?.code]).toEqual([name, 400, "context_length_exceeded"]);
    }
  });

  it("an error in one piece of status 200", async () => {
    upstream.answer(failing(200, { error: "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)" }));
    const { status, body } = await ask("/api/v1/chat/completions", "lab/plain");
    expect([status, body.error.code]).toEqual([400, "context_length_exceeded"]);
  });

  it("an error after a text ends the stream as before, and the text is charged", async () => {
    upstream.answer(
      events(delta("hello there"), `data: ${JSON.stringify({ error: "Context size has been exceeded." })}\n\n`),
    );
    const { status, body } = await ask("/api/v1/chat/completions", "lab/plain", true);
    expect([status, body]).toEqual([200, expect.stringContaining("upstream_error")]);
    await expect.poll(() => charges(user)).toHaveLength(1);
  });
});

it.each(NOT_TOO_LONG)("another fault is no prompt that is too long: %s", async (_, status, body) => {
  upstream.answer(failing(status, body));
  const answer = await ask("/api/v1/chat/completions", "lab/plain");
  expect([answer.status, answer.body.error.code]).toEqual([400, "invalid_value"]);
});

it.each([
  [429, { error: { message: "Rate limit reached: too many tokens per minute", code: "rate_limit_exceeded" } }],
  [429, { message: "Too many tokens, please wait before trying again." }],
  [503, { error: { message: "The maximum context is being loaded; too many requests" } }],
])("a limit of tokens in a time is no prompt that is too long: %d %j", async (status, body) => {
  upstream.answer(failing(status, body));
  const answer = await ask("/api/v1/chat/completions", "lab/plain");
  expect([answer.status, answer.body.error.code]).toEqual([502, "upstream_error"]);
});

describe.each(MODELS)("%s: the provider's message is shown where it is", (model) => {
  it.each(MESSAGES_IN)("%s", async (_, body, message) => {
    upstream.answer(failing(400, body));
    for (const path of PATHS) {
      const answer = await ask(path, model);
      expect([answer.status, answer.body.error.metadata.provider.message]).toEqual([
        400,
        message === "" ? null : message,
      ]);
    }
  });

  it("and a long page is cut", async () => {
    upstream.answer(failing(500, `<html><body>${"<p>word</p>".repeat(5_000)}</body></html>`));
    const { body } = await ask("/api/v1/chat/completions", model);
    expect(body.error.metadata.provider.message.length).toBeLessThanOrEqual(500);
  });
});

describe.each(MODELS)("%s: a provider at its limit says how long to wait", (model) => {
  it.each(WAITS)("%s", async (_, status, headers, body, seconds) => {
    upstream.answer(failing(status, body, headers));
    for (const path of PATHS) {
      for (const stream of [false, true]) {
        const answer = await user.post(path, REQUESTS[path](model, stream));
        expect([answer.status, answer.headers.get("retry-after")]).toEqual([502, seconds]);
      }
    }
  });

  it("until an HTTP date", async () => {
    const date = new Date(realNowMs() + 90_000).toUTCString();
    upstream.answer(failing(429, {}, { "retry-after": date }));
    const { headers } = await ask("/api/v1/chat/completions", model);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(80);
    expect(Number(headers.get("retry-after"))).toBeLessThanOrEqual(90);
  });
});
