import { expect, test } from "vitest";
import { ledgerErrors } from "../../../src/account/ledger/errors.ts";
import { describeBrokenAnswer, modelCallError } from "../../../src/agents/runs/model-call.ts";

const MEANS = { may_subscribe: true, overage: "never" } as const;
const refused = (code: Parameters<typeof ledgerErrors.payment>[0]) =>
  ledgerErrors.payment(code, { required: 9, available: 1, held: 0, shortfall: 8 }, MEANS);

test("an error about a low balance does not name max_tokens to an agent's owner, because agents do not have it", () => {
  const { code, message } = modelCallError(refused("insufficient_balance"));
  expect(code).toBe("insufficient_tokens");
  expect(message).not.toContain("max_tokens");
  expect(message).toContain("Top up");
});

test("other messages of a 402 are the same for a run", () => {
  const error = refused("trial_ended");
  expect(modelCallError(error)).toEqual({ code: "insufficient_tokens", message: error.message });
});

test("an interrupted answer's error says what to do", () => {
  expect(describeBrokenAnswer(null, { was_heard: true }).error.message).toContain("Run the agent again");
});
