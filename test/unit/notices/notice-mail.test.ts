import { expect, it } from "vitest";
import { noticeMail } from "../../../src/account/notices/notice-mail.ts";

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
