import { expect, test } from "vitest";
import { listSetupSteps } from "../../../src/operator/setup.ts";

// Simulated payments are the default of a service on one machine: only PURSER_PAYMENTS makes them a decision.
test.each([
  ["stripe", true, "done"],
  ["stripe", false, "done"],
  ["sandbox", true, "not_wanted"],
  ["sandbox", false, "to_do"],
  ["none", true, "not_wanted"],
  ["none", false, "to_do"],
] as const)("payments %s, PURSER_PAYMENTS set: %s, are %s in the set-up", (provider, is_set, state) => {
  const steps = listSetupSteps({
    has_admin: false,
    providers: [],
    payments: { provider, unpaid_invoices: 0, past_due_subscriptions: 0, mismatches: 0 },
    mail: { delivery: "log", from: null, queued: 0, last_failure: null },
    backup: null,
    isSet: (variable) => is_set && variable === "PURSER_PAYMENTS",
    local_only: false,
  });
  expect(steps.find(({ step }) => step === "payments")?.state).toBe(state);
});
