import type { OverviewRecord, SetupStep } from "../api/contract/admin-service.ts";

type Facts = Pick<OverviewRecord, "providers" | "payments" | "mail" | "backup"> & {
  has_admin: boolean;
  /** Whether a variable is set. */
  isSet(variable: string): boolean;
  /** Only people on this machine can use the service. */
  local_only: boolean;
};

/** What an operator has done of a first set-up, in its order. Pure. */
export function listSetupSteps(facts: Facts): SetupStep[] {
  const { has_admin, providers, payments, mail, backup, isSet, local_only } = facts;
  const done = (is_done: boolean): SetupStep["state"] => (is_done ? "done" : "to_do");
  const has_provider = providers.some(({ models }) => models > 0);
  return [
    { step: "admin", state: done(has_admin) },
    { step: "provider", state: done(has_provider) },
    // PURSER_PAYMENTS=none or sandbox is a decision; simulated payments without it are only the default.
    {
      step: "payments",
      state: payments.provider === "stripe" ? "done" : isSet("PURSER_PAYMENTS") ? "not_wanted" : "to_do",
    },
    // Without a mail server, people on this machine sign up without a link.
    { step: "mail", state: mail.delivery === "log" && local_only ? "not_wanted" : done(mail.delivery === "mail") },
    { step: "sign_up", state: done(isSet("PURSER_SIGNUP")) },
    { step: "backup", state: done(backup?.succeeded_at != null) },
  ];
}
