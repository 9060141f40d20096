import { USER_ROWS } from "../../kernel/constants.ts";
import { conflict, tooMany } from "../../kernel/purser-error.ts";

/** Errors of endpoints for notices. */
export const noticeErrors = {
  mailEndpointExists: () => conflict("endpoint_limit_reached", tooMany(1, "endpoint for e-mail"), "url"),
  endpointLimitReached: () => conflict("endpoint_limit_reached", tooMany(USER_ROWS.webhook_endpoints, "endpoints")),
};
