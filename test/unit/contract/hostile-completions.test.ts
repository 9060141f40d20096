import { expect, it } from "vitest";
import { createCompletionRoute } from "../../../src/api/contract/completions.ts";
import { createMessageRoute } from "../../../src/api/contract/messages.ts";
import { createResponseRoute } from "../../../src/api/contract/responses.ts";
import { createMessageWriter } from "../../../src/gateway/messages/messages-answer.ts";
import { expectShortTurn, heldDuring } from "../../support/held.ts";

const schema = createCompletionRoute.request.body.content["application/json"].schema;
const user = { role: "user", content: "hello" };
const wide = Object.fromEntries(Array.from({ length: 90_000 }, (_, n) => [`k${n}`, 1]));
const list = (item: unknown) => Array(9_900).fill(item);

it.each<[string, object, string]>([
  ["9,900 messages without a text", { messages: list({ role: "user", content: 7 }) }, "messages.0.content"],
  ["9,900 parts without a type", { messages: [{ ...user, content: list({ type: 7 }) }] }, "messages.0.content"],
  [
    "33 messages of 300 parts without a type",
    { messages: Array(33).fill({ ...user, content: Array(300).fill({}) }) },
    "messages.0.content",
  ],
  ["10,001 messages", { messages: Array(10_001).fill(user) }, "messages"],
])("%s is rejected at its first fault, and does not block the event loop", { retry: 2 }, async (name, body, path) => {
  const request = { model: "m", ...body };
  let issues: readonly { path: PropertyKey[] }[] = [];
  await schema.safeParseAsync({ model: "m", messages: [user] });
  const held_ms = await heldDuring(async () => {
    issues = (await schema.safeParseAsync(request)).error?.issues ?? [];
  });
  expect(issues).toHaveLength(1);
  expect(issues[0]?.path.join(".")).toBe(path);
  await expectShortTurn(name, held_ms);
});

const LONG_TYPE = { type: `${"x".repeat(30_000_000)}_tool_result` };
it.each([
  [
    "190,000 numbers as the system of Messages",
    createMessageRoute,
    { max_tokens: 1, messages: [user], system: Array(190_000).fill(1) },
  ],
  [
    "190,000 numbers as the summary of Responses",
    createResponseRoute,
    { input: [{ type: "reasoning", summary: Array(190_000).fill(1) }] },
  ],
  [
    "30 MB as the type of a block",
    createMessageRoute,
    { max_tokens: 1, messages: [{ ...user, content: [LONG_TYPE] }] },
  ],
])("%s: rejected, and the event loop is not blocked", { retry: 2 }, async (name, route, body) => {
  const schema = route.request.body.content["application/json"].schema;
  await schema.safeParseAsync({ model: "m", max_tokens: 1, messages: [user], input: "x" });
  const held_ms = await heldDuring(async () => {
    expect((await schema.safeParseAsync({ model: "m", ...body })).success).toBe(false);
  });
  await expectShortTurn(name, held_ms);
});

it("10,000 messages are accepted, and do not block the event loop", { retry: 2 }, async () => {
  const messages = Array(10_000).fill(user);
  await schema.safeParseAsync({ model: "m", messages });
  const held_ms = await heldDuring(async () => {
    expect((await schema.safeParseAsync({ model: "m", messages })).success).toBe(true);
  });
  await expectShortTurn("10,000 messages", held_ms);
});

it("maps with the caller's own keys and long valid lists are accepted", async () => {
  const parameters = { type: "object", properties: wide };
  const tools = [{ type: "function", function: { name: "f", parameters } }];
  expect((await schema.safeParseAsync({ model: "m", messages: list(user), tools, metadata: wide })).success).toBe(true);
});

it("the end of a streamed call with 10 MB of arguments takes far less time than they take to parse", {
  retry: 2,
}, async () => {
  const asked = {
    model: "m",
    stop_sequences: [],
    newId: () => "n",
    paramOf: (param: string) => param,
    seal: () => "s",
  };
  const writer = createMessageWriter(asked);
  const write = (event: object) =>
    writer.write({ events: [{ choice: 0, at: 0, tool: "function", ...event } as never] });
  await write({ type: "call", id: "c", name: "f", text: '{"file_text":"' });
  const breaks = "\\n".repeat(5_000);
  for (let sent = 0; sent < 1_000; sent += 1) await write({ type: "arguments", text: breaks });
  await write({ type: "arguments", text: '"}' });
  let end = "";
  const held_ms = await heldDuring(async () => {
    end = await writer.write({ events: [{ type: "end", usage: null, routing: null }] });
  });
  expect(end).toContain('"stop_reason":"tool_use"');
  const parsing_ms = await heldDuring(async () => JSON.parse(`"${breaks.repeat(1_000)}"`));
  expect(held_ms).toBeLessThan(parsing_ms / 4);
});
