import { afterAll, beforeAll, expect, it } from "vitest";
import { ask, type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";

// Tools that the service cannot execute are dropped, and the operator's log says which (contract 4.11, 4.12, 4.13).

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab();
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});
afterAll(() => lab.stop());

it("the log has the types of tools that OpenAI executes, with the request's id, and no text from the caller", async () => {
  const types = ["web_search", "x".repeat(1_000), ...Array.from({ length: 40 }, (_, n) => `hosted_${n}`)];
  const tools = types.map((type) => ({ type }));
  const { headers } = await user.post("/api/v1/responses", { model: "lab/plain", input: "go", tools });
  const shown = ["web_search", "other"];
  expect(lab.service.noted("tools that OpenAI executes itself were dropped")).toEqual([
    { request_id: headers.get("x-request-id"), tools: shown },
  ]);
});

it("the log has the types of tools that Anthropic executes", async () => {
  const tools = [{ type: "web_search_20250305", name: "web_search" }];
  const messages = [{ role: "user", content: "go" }];
  const { headers } = await user.post("/api/v1/messages", { model: "lab/plain", max_tokens: 9, messages, tools });
  expect(lab.service.noted("tools that Anthropic executes itself were dropped")).toEqual([
    { request_id: headers.get("x-request-id"), tools: ["web_search_20250305"] },
  ]);
});

it("the log has the number of tools that an agent ignores, and no line for a request without tools", async () => {
  const agent_id = (await user.post("/api/v1/agents", { name: "Sailor", model_id: "lab/plain" })).body.id;
  const tools = [{ type: "function", function: { name: "shell" } }];
  const { headers } = await user.post("/api/v1/chat/completions", ask(`agent/${agent_id}`, { tools }));
  await user.post("/api/v1/chat/completions", ask(`agent/${agent_id}`));
  expect(lab.service.noted("tools of the caller were dropped")).toEqual([
    { request_id: headers.get("x-request-id"), agent_id, tools: 1 },
  ]);
});

it("answers of Responses repeat no setting of over 64 KB: each event would have it, and dropped tools and metadata cost no tokens", async () => {
  const long = "x".repeat(100_000);
  const large = { tools: [{ type: "web_search", long }], metadata: { long } };
  for (const [settings, repeated] of [
    [large, { tools: [], metadata: {} }],
    [{ metadata: { run: "7" } }, { tools: [], metadata: { run: "7" } }],
  ]) {
    const asked = { model: "lab/plain", input: "go", ...settings };
    expect((await user.post("/api/v1/responses", asked)).body).toMatchObject(repeated as object);
    const { body: events } = await user.post("/api/v1/responses", { ...asked, stream: true });
    expect(events.length).toBeLessThan(20_000);
    const last = JSON.parse(/^event: response\.completed\ndata: (.*)$/m.exec(events)?.[1] ?? "null");
    expect(last.response).toMatchObject(repeated as object);
  }
});
