import { USER_ROWS } from "../../kernel/constants.ts";
import { conflict, tooMany } from "../../kernel/purser-error.ts";

/** Errors of endpoints for notices. */
export const noticeErrors = {
  mailEndpointExists: () => conflict("endpoint_limit_reached", tooMany(1, "endpoint for e-mail"), "url"),
  endpointDisabled: () =>
    conflict("endpoint_disabled", "This endpoint is disabled, so nothing is delivered to it. Enable it first."),
  endpointLimitReached: () => conflict("endpoint_limit_reached", tooMany(USER_ROWS.webhook_endpoints, "endpoints")),
};
