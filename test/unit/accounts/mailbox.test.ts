import { expect, test } from "vitest";
import { extractMailbox } from "../../../src/account/users/trials.service.ts";

test.each([
  ["Ada@Example.org", "ada@example.org"],
  ["ada+trial@example.org", "ada@example.org"],
  ["ada+one+two@example.org", "ada@example.org"],
  ["a.d.a@example.org", "a.d.a@example.org"],
  ["a.d.a@gmail.com", "ada@gmail.com"],
  ["A.da+x.y@GoogleMail.com", "ada@gmail.com"],
  ["a-d_a.x@pm.me", "adax@proton.me"],
  ["ada@protonmail.com", "ada@proton.me"],
  ["a.da@gmail.com.example.org", "a.da@gmail.com.example.org"],
  ['"a@b"@example.org', '"a@b"@example.org'],
])("%s belongs to the mailbox %s", (email, mailbox) => {
  expect(extractMailbox(email)).toBe(mailbox);
});
