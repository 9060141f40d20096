import { expect, test } from "vitest";
import { problemOf } from "../../../console/src/api/problem.ts";
import { billingErrors } from "../../../src/account/billing/errors.ts";
import { ledgerErrors } from "../../../src/account/ledger/errors.ts";
import { agentErrors } from "../../../src/agents/definitions/errors.ts";
import { httpErrors } from "../../../src/api/http/errors.ts";
import { errors, type PurserError } from "../../../src/kernel/errors.ts";

const shown = async ({ shape }: PurserError) => {
  const { message, code } = shape;
  return (await problemOf(Response.json({ error: { code, message } }, { status: shape.status }))).message;
};

test("each cause of a 429 is explained to the person, without the name of a header", async () => {
  const generic = "You have sent too many requests in a short time. Wait a moment, then try again.";
  expect(await shown(errors.rateLimited(3))).toBe(generic);
  const queued = "1000 of your runs are queued already. Retry when some have been carried out, or cancel some.";
  expect(await shown(errors.rateLimited(3, queued))).toBe(queued);
  const mailed = "No mail was sent: this address was asked for too often.";
  expect(await shown(errors.rateLimited(3, `${mailed} Retry after the time in Retry-After.`))).toBe(
    `${mailed} Wait a moment, then try again.`,
  );
});

test("messages about actions in the console name no fields, headers or addresses of the API", async () => {
  const shown_errors = [
    agentErrors.agentDisabled(),
    billingErrors.overageUnpaid(),
    httpErrors.missingApiKey(),
    errors.overloaded(),
  ];
  for (const error of shown_errors)
    expect(await shown(error), error.code).not.toMatch(/is_active|\/api\/|Authorization|-After/);
});

test("an adjustment of more tokens than the user has is explained without the name of a field", async () => {
  expect(await shown(ledgerErrors.adjustmentTooLarge(18))).toBe(
    "The user has 18 tokens that no call holds, so no more can be taken. Enter at least -18.",
  );
});
