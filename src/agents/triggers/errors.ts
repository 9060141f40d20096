import { FREE_DAY, TRIGGERS } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import { conflict, invalid, unauthenticated } from "../../kernel/purser-error.ts";

/** Errors of triggers and of deliveries to them. */
export const triggerErrors = {
  triggerLimitReached: () =>
    conflict("trigger_limit_reached", `This agent has ${TRIGGERS.per_agent} triggers. Delete one first.`),
  triggerNameTaken: () => conflict("name_taken", "A trigger of this name already exists. Choose another name.", "name"),
  /** `why`: a sentence that names the header or what does not match. */
  notVerified: (why: string) =>
    unauthenticated("invalid_signature", `${why} Check the secret and how the trigger verifies deliveries.`),
  bodyUnreadable: () =>
    invalid(
      "invalid_body",
      "The body is neither JSON nor a form. Send application/json or application/x-www-form-urlencoded.",
    ),
  triggerDisabled: () => conflict("trigger_disabled", "This trigger is off. Set enabled to true first."),
  triggerKeyEnded: () =>
    conflict(
      "trigger_key_ended",
      "The API key that this trigger's runs count against was revoked or has expired. Change the trigger with another key, or in the console.",
    ),
  secretUnreadable: () =>
    conflict(
      "key_unreadable",
      "This trigger's secret cannot be opened: the service's master key is another one now. Rotate it.",
    ),
  dayIsFull: (retry_after_s: number) =>
    errors.rateLimited(
      retry_after_s,
      `Your triggers have received ${FREE_DAY.trigger_deliveries} deliveries or ${FREE_DAY.trigger_delivery_bytes / 1_048_576} MB today. Retry tomorrow (UTC).`,
    ),
};
