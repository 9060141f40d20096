import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { charges, expectCleanAudit, settledBalance } from "../support/lab.ts";
import { NATIVE_APIS, NATIVE_ENV, NATIVE_KINDS, type NativeKind, nativeConfig } from "../support/native-apis/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { type Site, startSite } from "../support/sites.ts";
import { completion, startUpstream, type Upstream } from "../support/upstream.ts";

// Attack: a picture's address reaches an own vision server, which opens it: file://, its own services, the metadata of its
// cloud. Servers such as vLLM, SGLang and llama.cpp fetch what a request names.

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const GRANT = 10_000_000;

let upstream: Upstream;
let service: Service;
let user: Client;
/** A site that the operator allows. */
let site: Site;
/** A service of the operator's own network. */
let inner: Site;
beforeAll(async () => {
  upstream = await startUpstream();
  inner = await startSite({
    "/secret.png": { headers: { "content-type": "image/png" }, body: Buffer.from(PIXEL, "base64") },
  });
  const picture = (type: string) => ({ headers: { "content-type": type }, body: Buffer.from(PIXEL, "base64") });
  const redirect = (location: string) => ({ status: 302, headers: { location } });
  site = await startSite({
    "/a.png": picture("image/png"),
    "/wrong-type": picture("text/plain"),
    "/moved": redirect("/a.png"),
    "/to-metadata": redirect("http://169.254.169.254/latest/meta-data/"),
    "/to-inner": redirect(`${inner.url}/secret.png`),
    "/to-file": redirect("file:///etc/passwd"),
    "/page": { headers: { "content-type": "text/html" }, body: "<p>no picture</p>" },
    "/huge": { headers: { "content-type": "image/png" }, body: Buffer.alloc(25_000_000, 1) },
  });
  const native = nativeConfig(upstream);
  const lab = { name: "lab", kind: "openai-compatible", base_url: upstream.url, api_key_env: "NATIVE_KEY" };
  const plain = { ...native.models[0], id: "lab/plain", provider: "lab", provider_model: "plain", name: "plain" };
  service = await startService({
    env: { ...NATIVE_ENV, PURSER_EGRESS_ALLOW: site.host },
    config: { ...native, providers: [...native.providers, lab], models: [...native.models, plain] },
  });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await service.stop();
  await Promise.all([upstream.close(), site.close(), inner.close()]);
});
beforeEach(async () => {
  upstream.requests = [];
  inner.requests.length = 0;
  user = await service.newUser({ trial: false, tokens: GRANT });
});

const MODELS = ["lab/plain", ...NATIVE_KINDS.map((kind) => `native/${kind}`)];
/** Gemini's API takes no addresses. */
const FETCHED = MODELS.filter((model) => model !== "native/google");

function answer(model: string): void {
  const kind = model.replace("native/", "") as NativeKind;
  upstream.answer(model === "lab/plain" ? completion() : NATIVE_APIS[kind].create(() => ({ text: "ok" })).reply);
}

/** A picture at `url` in each place of each API. */
const PLACES: Record<string, (url: string) => [path: string, body: object, param: string]> = {
  "a message": (url) => [
    "/api/v1/chat/completions",
    { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }] },
    "messages[0].content[0].image_url.url",
  ],
  "a tool's result": (url) => [
    "/api/v1/chat/completions",
    {
      messages: [
        { role: "user", content: "look" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "call_1", type: "function", function: { name: "f", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "call_1", content: [{ type: "image_url", image_url: { url } }] },
      ],
    },
    "messages[2].content[0].image_url.url",
  ],
  "an input item": (url) => [
    "/api/v1/responses",
    { input: [{ role: "user", content: [{ type: "input_image", image_url: url }] }] },
    "input[0].content[0].image_url",
  ],
  "a function's output": (url) => [
    "/api/v1/responses",
    {
      input: [
        { role: "user", content: "look" },
        { type: "function_call", call_id: "call_1", name: "f", arguments: "{}" },
        { type: "function_call_output", call_id: "call_1", output: [{ type: "input_image", image_url: url }] },
      ],
    },
    "input[2].content[0].image_url",
  ],
  "a block": (url) => [
    "/api/v1/messages",
    { max_tokens: 500, messages: [{ role: "user", content: [{ type: "image", source: { type: "url", url } }] }] },
    "messages[0].content[0].source",
  ],
  "a result's block": (url) => [
    "/api/v1/messages",
    {
      max_tokens: 500,
      messages: [
        { role: "user", content: "look" },
        { role: "assistant", content: [{ type: "tool_use", id: "call_1", name: "f", input: {} }] },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "call_1", content: [{ type: "image", source: { type: "url", url } }] },
          ],
        },
      ],
    },
    "messages[2].content[0].content[0].source",
  ],
};

const BLOCKED: [string, () => string][] = [
  ["a file", () => "file:///etc/passwd"],
  ["a file of Windows' form", () => "file://c:/secret.png"],
  ["another scheme", () => "gopher://127.0.0.1:6379/_INFO"],
  ["ftp", () => "ftp://example.com/a.png"],
  ["a path", () => "/etc/passwd"],
  ["an address without a scheme", () => "//169.254.169.254/latest/"],
  ["the metadata of a cloud", () => "http://169.254.169.254/latest/meta-data/iam/security-credentials/"],
  ["its IPv6", () => "http://[fd00:ec2::254]/latest/"],
  ["loopback", () => `${inner.url}/secret.png`],
  ["loopback by name", () => `http://localhost:${inner.port}/secret.png`],
  ["loopback in IPv6", () => `http://[::1]:${inner.port}/secret.png`],
  ["loopback, mapped", () => `http://[::ffff:127.0.0.1]:${inner.port}/secret.png`],
  ["loopback as a number", () => `http://2130706433:${inner.port}/secret.png`],
  ["loopback in octal", () => `http://0177.0.0.1:${inner.port}/secret.png`],
  ["any address", () => `http://0.0.0.0:${inner.port}/secret.png`],
  ["a private network", () => "http://10.0.0.1/a.png"],
  ["capitals", () => `HTTP://127.0.0.1:${inner.port}/secret.png`],
  ["a user in the address", () => `http://user@127.0.0.1:${inner.port}/secret.png`],
];

describe.each(MODELS)("to %s", (model) => {
  it.each(BLOCKED)("no address of %s gets through, in any place", async (_, urlOf) => {
    answer(model);
    for (const [place, bodyOf] of Object.entries(PLACES)) {
      const [path, fields, param] = bodyOf(urlOf());
      for (const stream of [false, true]) {
        const { status, body } = await user.post(path, { model, stream, ...fields });
        expect([place, status, body.error?.code, body.error?.param]).toEqual([place, 400, "invalid_value", param]);
      }
    }
    expect([upstream.requests, inner.requests]).toEqual([[], []]);
    expect(await settledBalance(user)).toBe(GRANT);
    expect(await charges(user)).toEqual([]);
  });

  const file = (fields: object) => ({ type: "file", file: fields });
  it.each([
    ["a file's data", file({ file_data: "file:///etc/passwd", filename: "a.pdf" })],
    ["a file's data on loopback", file({ file_data: "http://127.0.0.1/a.pdf" })],
    ["a file's id", file({ file_id: "http://169.254.169.254/" })],
    ["audio", { type: "input_audio", input_audio: { data: "http://127.0.0.1/a.wav", format: "wav" } }],
    ["a page in place of a picture", { type: "image_url", image_url: { url: "data:text/html,<b>" } }],
    ["a page in base64", { type: "image_url", image_url: { url: "data:text/html;base64,PGI+" } }],
    ["a film", { type: "video_url", video_url: { url: "file:///etc/passwd" } }],
    ["audio by address", { type: "audio_url", audio_url: { url: "http://127.0.0.1/a.wav" } }],
  ])("no address gets through as %s", async (_, part) => {
    answer(model);
    const { status, body } = await user.post("/api/v1/chat/completions", {
      model,
      messages: [{ role: "user", content: [part] }],
    });
    expect([status, body.error.type]).toEqual([400, "invalid_request_error"]);
    expect(upstream.requests).toEqual([]);
  });

  it.each([
    { type: "input_file", file_data: "file:///etc/passwd", filename: "a.pdf" },
    { type: "input_file", file_url: "http://169.254.169.254/a.pdf" },
    { type: "input_file", file_id: "file:///etc/passwd" },
    { type: "input_image", file_id: "file:///etc/passwd" },
  ])("no address gets through in an input item: %j", async (part) => {
    answer(model);
    const input = [{ role: "user", content: [{ type: "input_text", text: "look" }, part] }];
    expect((await user.post("/api/v1/responses", { model, input })).status).toBe(400);
    expect(upstream.requests).toEqual([]);
  });

  it("no address gets through as a document of Messages", async () => {
    answer(model);
    const content = [{ type: "document", source: { type: "url", url: "http://169.254.169.254/a.pdf" } }];
    const body = { model, max_tokens: 500, messages: [{ role: "user", content }] };
    expect((await user.post("/api/v1/messages", body)).status).toBe(400);
    expect(upstream.requests).toEqual([]);
  });
});

describe.each(FETCHED)("to %s", (model) => {
  it.each(["/to-metadata", "/to-inner", "/to-file", "/page", "/huge", "/missing"])(
    "no picture is sent from %s, and nothing is charged",
    async (path) => {
      answer(model);
      const [endpoint, fields, param] = (PLACES["a message"] as (url: string) => [string, object, string])(
        site.url + path,
      );
      const { status, body } = await user.post(endpoint, { model, ...fields });
      expect([status, body.error.param]).toEqual([400, param]);
      expect(body.error.message).toMatch(/cannot be fetched: .+\. Send the picture as a data: URL in base64\.$/);
      expect([upstream.requests, inner.requests]).toEqual([[], []]);
      expect(await settledBalance(user)).toBe(GRANT);
    },
  );

  it.each(Object.entries(PLACES))("a picture of an open address is sent as data, in %s", async (_, bodyOf) => {
    for (const path of ["/a.png", "/moved", "/wrong-type"]) {
      answer(model);
      const [endpoint, fields] = bodyOf(site.url + path);
      const { status, body } = await user.post(endpoint, { model, ...fields });
      expect([status, body.error?.message]).toEqual([200, undefined]);
      const sent = JSON.stringify(upstream.requests.at(-1)?.body);
      expect(sent).toContain(PIXEL);
      expect(sent).toContain("image/png");
      expect(sent).not.toContain(site.host);
    }
    await expect.poll(() => charges(user)).toHaveLength(3);
  });

  it("a picture that is named several times is fetched once, and many pictures are rejected", async () => {
    answer(model);
    site.requests.length = 0;
    const showing = (urls: string[]) => ({
      model,
      messages: [{ role: "user", content: urls.map((url) => ({ type: "image_url", image_url: { url } })) }],
    });
    const same = Array.from({ length: 30 }, () => `${site.url}/a.png`);
    expect((await user.post("/api/v1/chat/completions", showing(same))).status).toBe(200);
    expect(site.requests).toHaveLength(1);
    const many = Array.from({ length: 21 }, (_, n) => `${site.url}/a.png?${n}`);
    const { status, body } = await user.post("/api/v1/chat/completions", showing(many));
    expect([status, body.error.param]).toEqual([400, "messages[0].content[20].image_url.url"]);
  });
});
