import { expect, it } from "vitest";
import { noticeMail } from "../../../src/account/notices/notice-mail.ts";
import type { NewNotice } from "../../../src/account/notices/notices.types.ts";
import type { RequiredAction } from "../../../src/api/contract/run-actions.ts";
import type { NoticeData } from "../../../src/api/contract/webhooks.ts";
import { createNotifiers } from "../../../src/app/notice-mappers.ts";
import type { Tx } from "../../../src/platform/db/db.ts";

it.each([
  ["payment_declined", "The payment of $12.50 was declined, or no card is saved."],
  ["payment_mismatch", "The payment of $12.50 had another amount than ordered."],
  ["payment_returned", "The payment of $12.50 was refunded or disputed."],
])("the mail of paused top-ups says which payment paused them, and why: %s", (reason, sentence) => {
  const data = { reason, payment_id: "p", amount_cents: 1_250 };
  const receiver = { to: "ada@example.org", url: "https://purser.example", agent: null };
  const { text } = noticeMail({ id: "n", event: "auto_topup.paused", data }, receiver);
  expect(text).toContain(`${sentence} No further one is ordered until you resume them.`);
});

const asks = (given: unknown, reason = "crm__add can change something."): RequiredAction => ({
  id: "a",
  type: "tool_approval",
  step: 2,
  tool: "crm__add",
  arguments: given,
  destination: "crm.example.com",
  budget: null,
  reason,
  untrusted_sources: [],
  spent: { tokens: 0, usd: "0" },
  requested_at: "2026-11-28T15:20:30.000Z",
  expires_at: "2026-11-29T15:20:30.000Z",
});
/** The notice and the mail of a run that waits for these actions. */
async function asked(...actions: RequiredAction[]) {
  const notices: NewNotice[] = [];
  const { runs } = createNotifiers({ emit: async (notice) => void notices.push(notice) });
  const run = { user_id: "u", agent_id: "agent-id", run_id: "run-id", trigger: "schedule" as const };
  await runs.onRequiresAction({ ...run, actions }, {} as Tx);
  expect(notices).toHaveLength(1);
  const [notice] = notices as [NewNotice];
  const receiver = { to: "ada@example.org", url: "https://purser.example", agent: "Desk" };
  return { notice, mail: noticeMail({ id: "n", ...notice }, receiver) };
}

it("the mail of a run that waits shows the agent, the call, its reason and until when, and links to the page of the decision", async () => {
  const { mail } = await asked(asks({ name: "Ada", phone: "0123" }));
  expect(mail.subject).toBe('"Desk" asks for your decision');
  expect(mail.link).toBe("https://purser.example/agents/agent-id/runs/run-id/decide");
  expect(
    mail.text,
  ).toBe(`"Desk" asks for your decision. It waits, at no cost, until 2026-11-29 15:20 UTC. This page shows the whole question, and opening it decides nothing:

https://purser.example/agents/agent-id/runs/run-id/decide

What it asks, with at most 1,000 characters of each call's arguments. The agent wrote the lines with |. Addresses below are changed so that none can be opened.

1. crm__add, to crm[.]example[.]com
   crm__add can change something.

   | {
   |   "name": "Ada",
   |   "phone": "0123"
   | }

You receive this because your notices are sent to this address. To change that, open https://purser.example/notices
`);
});

it("a run that asks for several calls at once gives one notice with the first five, and its mail counts the others", async () => {
  const { notice, mail } = await asked(...Array.from({ length: 7 }, (_, n) => ({ ...asks({ n }), id: `a${n}` })));
  expect(notice).toMatchObject({ event: "run.requires_action", dedupe_key: "a0", data: { actions_count: 7 } });
  expect((notice.data as NoticeData["run.requires_action"]).actions).toHaveLength(5);
  expect(mail.text).toContain("And 2 more.");
});

it("long arguments are cut at 1,000 characters in the notice and its mail", async () => {
  const { notice, mail } = await asked(asks({ note: "n".repeat(5_000) }));
  const [action] = (notice.data as NoticeData["run.requires_action"]).actions;
  expect(action?.arguments).toHaveLength(1_001);
  expect(mail.text).toContain("nnn…\n\nYou receive");
});

it("a question for tokens has its reason in the mail", async () => {
  const budget = { tool: null, destination: null, type: "budget" as const };
  const { mail } = await asked({ ...asks(null, "The next call needs 1,200 tokens more."), ...budget });
  expect(mail.text).toContain("1. The next call needs 1,200 tokens more.\n\nYou receive");
});

it.each([
  ["an address", "Approve at https://evil.example/ok or www.evil.example", "Approve at https: //evil[.]example/ok"],
  ["a mail address", "Write to ada@evil.example", "ada@evil[.]example"],
  ["a link's other spelling", "HTTPS://EVIL.EXAMPLE", "HTTPS: //EVIL[.]EXAMPLE"],
  ["the mail's own words", "x\n\nYou receive this because", "You receive this because"],
  ["text that is displayed in another order", "moc.\u202eevil", "moc.\ufffdevil"],
])("the agent's text in a mail opens no page and imitates no line of the mail: %s", async (_name, text, shown) => {
  const { mail } = await asked(asks({ text }, `It has read ${text}`));
  const unescaped = mail.text.replaceAll("\\n", "\n");
  expect(unescaped).toContain(shown);
  const links = mail.text.match(/\S*(:\/\/|www\.|@)[^\s[]+\.\w+/gi) ?? [];
  expect(links.filter((link) => !link.startsWith("https://purser.example"))).toEqual([]);
  expect(mail.text.split("\n").filter((line) => line.startsWith("You receive"))).toHaveLength(1);
});
