import { afterAll, beforeAll, expect, test } from "vitest";
import { approverOf } from "../support/approvals.ts";
import { codeBlocks, runShell } from "../support/guides.ts";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import { calling, completion } from "../support/upstream.ts";

let lab: Lab;
let chat: Receiver;
beforeAll(async () => {
  chat = await startReceiver();
  lab = await startLab(undefined, { env: { PURSER_EGRESS_ALLOW: chat.host } });
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await chat.close();
});

test("the guide's commands bring one issue to the team's chat, after a person has approved the message", async () => {
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const { key: DECIDER } = await approverOf(lab.service, user);
  const CHAT = `${chat.url}/team`;
  const payload = { text: "High: nobody can log in. https://github.com/acme/shop/issues/7" };
  lab.upstream.answer(calling("send_webhook", { url: CHAT, payload }), completion("Told the team."));
  const commands = [...codeBlocks("docs/guides/triage-by-webhook.md", "sh"), "echo $AGENT $RUN_ID"];
  const given = { PURSER: lab.service.url, KEY: user.key, MODEL: "lab/plain", CHAT, DECIDER };
  const stdout = await runShell(commands, given);
  const printed = stdout.trim().split("\n");
  expect(printed.slice(0, -1)).toEqual([
    "the same run",
    "send_webhook",
    payload.text,
    "the trigger's delivery",
    "approved",
    "run 2",
  ]);
  const [agent, run_id] = printed.at(-1)?.split(" ") ?? [];
  const path = `/api/v1/agents/${agent}/runs/${run_id}`;
  await expect.poll(async () => (await user.get(path)).body.status, { interval: 20 }).toBe("succeeded");
  expect(chat.received.map(({ body }) => JSON.parse(body))).toEqual([payload]);
  const { input, input_safety } = (await user.get(path)).body;
  expect(input).toMatchObject({ title: "Nobody can log in", url: "https://github.com/acme/shop/issues/7" });
  expect(input_safety.removed).not.toEqual([]);
  const told = JSON.stringify(lab.upstream.requests.map(({ body }) => body.messages));
  expect(told).toContain("Since 9:00 all logins fail.");
  expect(told).not.toContain("Ignore all previous instructions");
});
