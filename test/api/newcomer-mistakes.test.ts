import { beforeAll, describe, expect, it } from "vitest";
import { useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";

// The messages of a newcomer's mistakes say what to do (contract 2.10, 2.11).

let user: Client;
const lab = useLab();
beforeAll(async () => {
  user = await lab.service.newUser();
});

describe("an address that does not exist", () => {
  it.each([
    ["POST", "/api/v1/completions", "Use POST /api/v1/chat/completions"],
    ["POST", "/api/chat", "Use POST /api/v1/chat/completions"],
    ["GET", "/api/tags", "Use GET /api/v1/models"],
    ["POST", "/openai/deployments/gpt/chat/completions?api-version=2024-10-21", "Use POST /api/v1/chat/completions"],
    ["POST", "/api/v1/openai/v1/responses", "Use POST /api/v1/responses"],
    ["POST", "/api/v1/v1/messages/", "Use POST /api/v1/messages"],
    ["GET", "/api/v1/responses/resp_1", "This response does not exist in this account"],
    ["POST", "/api/v1/batches", "send each of their requests by itself"],
    ["GET", "/api/v1/messages/batches/msgbatch_1", "send each of their requests by itself"],
    ["POST", "/api/v1/messages/count_token", "Did you mean POST /api/v1/messages/count_tokens?"],
    ["POST", "/api/v1/agents//runs", "An id is empty in it: the address is POST /api/v1/agents/{id}/runs."],
    ["POST", "/api/v1/nothing", "GET /openapi.json lists them"],
  ])("%s %s is 404 and says what to use", async (method, path, advice) => {
    const { status, body } = await user.request(method, path, method === "GET" ? undefined : {});
    expect([status, body.error.code]).toEqual([404, "not_found"]);
    expect(body.error.message).toContain(advice);
  });

  it("and a method that one of OpenAI's addresses does not take here is 405 and says what to use", async () => {
    const { status, body } = await user.request("POST", "/api/v1/threads", {});
    expect([status, body.error.code]).toEqual([405, "method_not_allowed"]);
    expect(body.error.message).toContain("This address takes GET. ");
    expect(body.error.message).toContain("/api/v1/agents/{id}/chat");
  });

  it("is 404 also with a body that is not JSON, such as an uploaded file", async () => {
    const form = new FormData();
    form.set("file", new Blob(["text"]), "a.txt");
    const headers = { Authorization: `Bearer ${user.key}` };
    const answer = await fetch(`${lab.service.url}/api/v1/files`, { method: "POST", headers, body: form });
    expect([answer.status, await answer.json()]).toMatchObject([
      404,
      { error: { code: "not_found", message: expect.stringContaining("in base64") } },
    ]);
  });
});

it.each(["KEY", "Basic KEY", "Bearer "])(
  "an Authorization header %j without a Bearer key says how to send one",
  async (given) => {
    const headers = { Authorization: given.replace("KEY", user.key) };
    const answer = await fetch(`${lab.service.url}/api/v1/models`, { headers });
    expect([answer.status, await answer.json()]).toMatchObject([
      401,
      { error: { code: "invalid_api_key", message: expect.stringContaining("`Authorization: Bearer <API_KEY>`") } },
    ]);
  },
);

describe("a value of another type in a chat completion", () => {
  const asked = (content: unknown) => ({ messages: [{ role: "user", content }] });
  it.each<[string, object]>([
    [
      'messages[0].content[0].image_url must be an object such as {"url": "https://example.com/a.png"}.',
      asked([{ type: "image_url", image_url: "https://example.com/a.png" }]),
    ],
    ["messages[0].content[0].text must be text.", asked([{ type: "text", text: 5 }])],
    ["messages[0].content must be text, or a list of at least 1 entries.", asked(null)],
    ['tool_choice.type must be "function", or "custom".', { ...asked("x"), tool_choice: { type: "any" } }],
    ["max_tokens must be a whole number of 1 or more, or null.", { ...asked("x"), max_tokens: "100" }],
    ["temperature must be a number from 0 to 2, or null.", { ...asked("x"), temperature: "0.7" }],
    ["stream must be true or false, or null.", { ...asked("x"), stream: "true" }],
    ["messages is required. Add it to the request.", {}],
  ])("%s", async (message, fields) => {
    const { status, body } = await user.post("/api/v1/chat/completions", { model: "lab/plain", ...fields });
    expect([status, body.error.message]).toEqual([400, message]);
  });
});
