import { FREE_DAY, TRIGGERS } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import { conflict, invalid, unauthenticated } from "../../kernel/purser-error.ts";
import type { Instant } from "../../platform/lib/instant.ts";

/** Errors of triggers and of deliveries to them. */
export const triggerErrors = {
  triggerLimitReached: () =>
    conflict("trigger_limit_reached", `This agent has ${TRIGGERS.per_agent} triggers. Delete one first.`),
  triggerNameTaken: () => conflict("name_taken", "A trigger of this name already exists. Choose another name.", "name"),
  /** `why`: what `findForgery` says. */
  notVerified: (why: string) => unauthenticated("invalid_signature", why),
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
  /** `until`: the next day. */
  dayIsFull: (until: Instant, retry_after_s: number) =>
    errors.rateLimited(
      retry_after_s,
      `No run was started: this address and its owner's other triggers have received what they take in a day (UTC), ${FREE_DAY.trigger_deliveries.toLocaleString("en-US")} deliveries or ${FREE_DAY.trigger_delivery_bytes / 1_048_576} MB. Send the delivery again from ${until} on.`,
    ),
};
