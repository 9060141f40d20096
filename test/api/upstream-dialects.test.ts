import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { ask, charges, expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { delta, event, events, USAGE } from "../support/upstream.ts";

// What OpenAI-compatible servers send in their own way reaches agents, Responses and Messages as it reaches chat
// completions.

/** Of lab/plain: 10 tokens of input at 1 and 4 of output at 2. */
const COST = 18;

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
});
beforeEach(async () => {
  user = await lab.service.newUser({ trial: false, tokens: 100_000 });
});

const HELLO = [
  delta("hello there"),
  event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
  event({ choices: [], usage: USAGE }),
  "data: [DONE]\n\n",
];

it.each([
  ["no space after `data:`", (text: string) => text.replace("data: ", "data:")],
  ["an event in two lines", (text: string) => text.replace("data: {", "data: {\ndata: ")],
  ["`error: null` in each chunk", (text: string) => text.replace('"choices"', '"error":null,"choices"')],
])("an agent answers with the text of its model and is charged once: %s", async (_, written) => {
  const agent = (await user.post("/api/v1/agents", { name: "Sailor", model_id: "lab/plain" })).body.id;
  lab.upstream.answer(events(...HELLO.map(written)));
  const answer = await user.post("/api/v1/chat/completions", ask(`agent/${agent}`));
  expect([answer.status, answer.body.choices?.[0].message.content]).toEqual([200, "hello there"]);
  expect(await charges(user)).toMatchObject([{ amount: -COST }]);
});
