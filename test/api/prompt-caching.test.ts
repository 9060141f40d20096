import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { metricsOf } from "../support/metrics.ts";
import { NATIVE_APIS, NATIVE_ENV, type NativeKind, nativeConfig } from "../support/native-apis/lab.ts";
import type { Tokens } from "../support/native-apis/turn.ts";
import { type Service, startService } from "../support/service.ts";
import { type Site, startSite } from "../support/sites.ts";
import { startUpstream, type Upstream } from "../support/upstream.ts";

let service: Service;
let upstream: Upstream;
let site: Site;
const STEPS = 8;
/** About 2,000 tokens of instructions, and a page of about 1,000. */
const INSTRUCTIONS = "Answer in one sentence, and name the page that says so. ".repeat(145);
const PAGE = `<p>${"The harbour has nine berths, and the seventh is free. ".repeat(75)}</p>`;

beforeAll(async () => {
  site = await startSite(Object.fromEntries(Array.from({ length: STEPS }, (_, n) => [`/page${n}`, { body: PAGE }])));
  upstream = await startUpstream();
  service = await startService({
    env: { ...NATIVE_ENV, PURSER_EGRESS_ALLOW: site.host },
    config: nativeConfig(upstream),
  });
});
afterAll(async () => {
  await service.stop();
  await upstream.close();
  await site.close();
});

/** An agent that reads a page in each of its steps except the last. */
async function runOf(kind: NativeKind): Promise<Tokens[]> {
  const { reply, tokens } = NATIVE_APIS[kind].create((n) =>
    n < STEPS - 1
      ? { reasoning: `page ${n} next`, calls: [{ name: "web_fetch", arguments: { url: `${site.url}/page${n}` } }] }
      : { text: "Berth 7 is free." },
  );
  upstream.answer(reply);
  upstream.requests.length = 0;
  const user = await service.newUser({ trial: false, tokens: 100_000_000 });
  const { body: agent } = await user.post("/api/v1/agents", {
    name: "Scout",
    model_id: `native/${kind}`,
    system_prompt: INSTRUCTIONS,
    run_prompt: "Which berth is free?",
    tools_config: { web_fetch: { enabled: true, hosts: [site.host] } },
  });
  const { body: run } = await user.post(`/api/v1/agents/${agent.id}/runs`, undefined, { Prefer: "wait=30" });
  expect(run).toMatchObject({ status: "succeeded", output: "Berth 7 is free." });
  return tokens;
}

const sum = (tokens: Tokens[], of: keyof Tokens) => tokens.reduce((total, each) => total + each[of], 0);

/** Dollars at Claude Sonnet 5.5's list prices: input 2, cache write 2.5, cached 0.2, output 10 per million. */
function dollars(tokens: Tokens[], { cached }: { cached: boolean }): number {
  const [read, written] = cached ? [sum(tokens, "cached"), sum(tokens, "written")] : [0, 0];
  const plain = sum(tokens, "input") - read - written;
  return (plain * 2 + written * 2.5 + read * 0.2 + sum(tokens, "output") * 10) / 1_000_000;
}

const round = (value: number) => Math.round(value / 1_000) * 1_000;

test("an agent of eight steps on Claude reads most of its input from the cache; the guide has the figures", async () => {
  const tokens = await runOf("anthropic");
  expect(tokens).toHaveLength(STEPS);
  for (const [n, { cached, written, input }] of tokens.entries()) {
    expect(cached + written).toBeGreaterThan(input * 0.95);
    if (n > 0) expect(cached).toBeGreaterThan(input * 0.5);
  }
  const body = upstream.requests.at(-1)?.body;
  expect(JSON.stringify(body).match(/cache_control/g)).toHaveLength(4);
  const [with_cache, without] = [dollars(tokens, { cached: true }), dollars(tokens, { cached: false })];
  expect(with_cache).toBeLessThan(without * 0.4);
  const figures = { input: sum(tokens, "input"), cached: sum(tokens, "cached"), written: sum(tokens, "written") };
  const guide = readFileSync("docs/guides/models.md", "utf8");
  for (const figure of Object.values(figures)) expect(guide).toContain(`${round(figure) / 1_000},000`);
  expect(guide).toContain(`$${with_cache.toFixed(3)}`);
  expect(guide).toContain(`$${without.toFixed(3)}`);
});

test("on OpenAI the calls of an agent share a cache key, so that each call finds the prefix of the previous one", async () => {
  const tokens = await runOf("openai");
  const keys = new Set(upstream.requests.map(({ body }) => body.prompt_cache_key));
  expect(keys.size).toBe(1);
  expect([...keys][0]).toMatch(/^[0-9a-f-]{36}$/);
  expect(sum(tokens.slice(1), "cached")).toBeGreaterThan(sum(tokens.slice(1), "input") * 0.5);
  const text = await metricsOf(service.url);
  expect(text).toMatch(/purser_model_input_tokens_total\{model="native\/openai",cache="read"\} [1-9]/);
});

test("a call without a following call writes no cache, which would cost more", async () => {
  const { reply } = NATIVE_APIS.anthropic.create(() => ({ text: "ok" }));
  upstream.answer(reply);
  upstream.requests.length = 0;
  const user = await service.newUser({ trial: false, tokens: 100_000_000 });
  const wanted = { name: "Scout", model_id: "native/anthropic", system_prompt: INSTRUCTIONS, run_prompt: "Hello." };
  const { body: agent } = await user.post("/api/v1/agents", wanted);
  await user.post(`/api/v1/agents/${agent.id}/runs`, undefined, { Prefer: "wait=30" });
  expect(JSON.stringify(upstream.requests[0]?.body)).not.toContain("cache_control");
});
