import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { expectCleanAudit } from "../support/lab.ts";
import {
  NATIVE_APIS,
  NATIVE_ENV,
  NATIVE_KINDS,
  type NativeKind,
  nativeConfig,
  threeFetches,
} from "../support/native-apis/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { type Site, startSite } from "../support/sites.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

// The fakes reject reasoning that was changed, is missing where it is needed, or is another model's.

let service: Service;
let upstream: Upstream;
let site: Site;
let user: Client;

beforeAll(async () => {
  const page = { body: "<p>The door is green.</p>" };
  site = await startSite({ "/one": page, "/two": page, "/three": page });
  upstream = await startUpstream();
  service = await startService({
    env: { ...NATIVE_ENV, PURSER_EGRESS_ALLOW: site.host },
    config: nativeConfig(upstream),
  });
});
beforeEach(async () => {
  upstream.requests.length = 0;
  user = await service.newUser({ trial: false, tokens: 100_000_000 });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await service.stop();
  await upstream.close();
  await site.close();
});

async function newAgent(kind: NativeKind, fields: object = {}): Promise<string> {
  const made = await user.post("/api/v1/agents", {
    name: "Scout",
    model_id: `native/${kind}`,
    system_prompt: "Be brief.",
    run_prompt: `What colour is the door of ${site.url}/one ${site.url}/two ${site.url}/three ?`,
    tools_config: { web_fetch: { enabled: true, hosts: [site.host] } },
    model_settings: { reasoning_effort: "high" },
    ...fields,
  });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  return `/api/v1/agents/${made.body.id}`;
}

/** The opaque data in a step's result: signatures and encrypted reasoning. */
function opaqueOf(result: { reasoning_details?: object[]; tool_calls?: object[] }): string[] {
  const text = JSON.stringify([result.reasoning_details ?? [], result.tool_calls ?? []]);
  return [...text.matchAll(/"(?:signature|data|thought_signature)":("[^"]+")/g)].map(([, data]) => data as string);
}

describe.each(NATIVE_KINDS)("reasoning of %s", (kind) => {
  test("is kept over the steps of a run: each call gets the reasoning of all earlier calls", async () => {
    const { reply } = NATIVE_APIS[kind].create(threeFetches(site.url));
    upstream.answer(reply);
    const agent = await newAgent(kind);
    const { body: run } = await user.post(`${agent}/runs`, undefined, { Prefer: "wait=30" });
    expect(run).toMatchObject({ status: "succeeded", output: "It is green.", steps_count: 7 });
    const answers = run.steps.filter(({ type }: { type: string }) => type === "model");
    for (const [n, request] of upstream.requests.entries()) {
      const sent = JSON.stringify(request.body);
      for (const { result } of answers.slice(0, n)) {
        expect(opaqueOf(result).length).toBeGreaterThan(0);
        for (const data of opaqueOf(result)) expect(sent).toContain(data);
      }
    }
    expect(answers[0].result.reasoning_content).toBe("thought 0");
  });

  test("is kept over the turns of a thread", async () => {
    const { reply } = NATIVE_APIS[kind].create(() => ({ reasoning: "known", text: "Green." }));
    upstream.answer(reply);
    const agent = await newAgent(kind);
    const say = (content: string) =>
      user.post(`${agent}/chat`, { messages: [{ role: "user", content }], thread_id: "t1" });
    const first = await say("What colour?");
    expect((await say("Sure?")).status).toBe(200);
    const { steps } = (await user.get(`${agent}/runs/${first.body.run_id}`)).body;
    const opaque = opaqueOf(steps[0].result);
    expect(opaque.length).toBeGreaterThan(0);
    for (const data of opaque) expect(JSON.stringify(upstream.requests[1]?.body)).toContain(data);
    const { messages } = (await user.get(`${agent}/threads/t1`)).body;
    expect(JSON.stringify(messages)).not.toContain("reasoning_details");
  });

  test("is dropped if the thread's next turn uses another model, and the step says so", async () => {
    const { reply } = NATIVE_APIS[kind].create(() => ({ reasoning: "known", text: "Green." }));
    upstream.answer(reply);
    const agent = await newAgent(kind);
    const say = async (content: string) => {
      const body = { messages: [{ role: "user", content }], thread_id: "t1" };
      const { run_id } = (await user.post(`${agent}/chat`, body)).body;
      return (await user.get(`${agent}/runs/${run_id}`)).body.steps[0].result;
    };
    const first = await say("What colour?");
    await user.request("PUT", agent, { model_id: `native/${kind}-2` });
    const second = await say("Sure?");
    for (const data of opaqueOf(first)) expect(JSON.stringify(upstream.requests[1]?.body)).not.toContain(data);
    expect(first.note).toBeUndefined();
    expect(second).toMatchObject({ model: `native/${kind}-2`, note: expect.stringContaining("another model made it") });
  });
});

test("reasoning is dropped when routing changes the provider within a run, and the step says so", async () => {
  const apis = {
    anthropic: NATIVE_APIS.anthropic.create(threeFetches(site.url)),
    google: NATIVE_APIS.google.create(threeFetches(site.url)),
  };
  upstream.answer((response, request) => {
    if (request.path.includes("generateContent") || request.path.includes("streamGenerateContent")) {
      return apis.google.reply(response, request);
    }
    // Each model of Anthropic answers once, and is then overloaded.
    const is_first = upstream.requests.length === 1;
    return is_first
      ? apis.anthropic.reply(response, request)
      : json({ type: "error", error: {} }, 529)(response, request);
  });
  const agent = await newAgent("anthropic", { model_id: null, auto_route: true });
  const { body: run } = await user.post(`${agent}/runs`, undefined, { Prefer: "wait=30" });
  expect(run).toMatchObject({ status: "succeeded", output: "It is green." });
  const answers = run.steps.filter(({ type }: { type: string }) => type === "model");
  expect(answers.map(({ result }: { result: { model: string } }) => result.model)).toEqual([
    "native/anthropic",
    "native/google",
    "native/google",
    "native/google",
  ]);
  const note = expect.stringContaining("another model made it");
  expect(answers.map(({ result }: { result: { note?: string } }) => result.note)).toEqual([
    undefined,
    note,
    note,
    note,
  ]);
});

test("model_settings reach the model; only the given ones change, and null clears one", async () => {
  upstream.answer(NATIVE_APIS.openai.create(() => ({ text: "Green." })).reply);
  const agent = await newAgent("openai", { model_settings: { temperature: 0.3, max_output_tokens: 700 } });
  await user.request("PUT", agent, { model_settings: { top_p: 0.9, reasoning_effort: "low" } });
  const { model_settings } = (await user.request("PUT", agent, { model_settings: { temperature: null } })).body;
  expect(model_settings).toEqual({ temperature: null, top_p: 0.9, reasoning_effort: "low", max_output_tokens: 700 });
  await user.post(`${agent}/runs`, undefined, { Prefer: "wait=30" });
  const sent = upstream.requests[0]?.body;
  expect(sent).toMatchObject({ top_p: 0.9, reasoning: { effort: "low" }, max_output_tokens: 700 });
  expect(sent).not.toHaveProperty("temperature");
  const wrong = await user.request("PUT", agent, { model_settings: { reasoning_effort: "enormous" } });
  expect([wrong.status, wrong.body.error.param]).toEqual([400, "model_settings.reasoning_effort"]);
});
