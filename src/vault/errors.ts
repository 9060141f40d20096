import { USER_ROWS } from "../kernel/constants.ts";
import { conflict, failure, tooMany } from "../kernel/purser-error.ts";

/** Errors of secrets. */
export const vaultErrors = {
  nameTaken: (what: string) => conflict("name_taken", `${what} already exists. Choose another name.`, "name"),
  secretLimitReached: () => conflict("secret_limit_reached", tooMany(USER_ROWS.secrets, "secrets")),
  notConnectable: () =>
    conflict(
      "not_connectable",
      "Only a secret of type oauth with the grant authorization_code is connected by a person.",
    ),
  /** `reason` is a sentence of our own, never of the authorization server. */
  oauthFailed: (reason: string) =>
    failure({
      status: 502,
      type: "api_error",
      code: "oauth_failed",
      message: `The sign-in could not begin: ${reason}. Correct the secret's settings, or ask the server's operator.`,
    }),
  vaultUnavailable: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "vault_unavailable",
      message:
        "The vault cannot be used now; nothing was changed. Retry; if it stays, tell the operator of this service.",
    }),
};
