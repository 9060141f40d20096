import { OPERATOR_CONFIRMATION_MINUTES, USER_ROWS } from "../../kernel/constants.ts";
import { conflict, forbidden, tooMany, unauthenticated } from "../../kernel/purser-error.ts";

/** Errors of users, their API keys and their sign-in. */
export const userErrors = {
  invalidApiKey: () => unauthenticated("invalid_api_key", "This API key is not valid. Check it, or create another."),
  noBearerKey: () =>
    unauthenticated(
      "invalid_api_key",
      "The Authorization header has no Bearer key. Send `Authorization: Bearer <API_KEY>`.",
    ),
  expiredApiKey: () =>
    unauthenticated("expired_api_key", "This API key has expired. Create another, or give it a later expires_at."),
  revokedApiKey: () => unauthenticated("revoked_api_key", "This API key was revoked. Create another."),
  sessionExpired: () => unauthenticated("session_expired", "You are signed out. Sign in again."),
  invalidCredentials: () =>
    unauthenticated(
      "invalid_credentials",
      "The e-mail address or the password is wrong, or the address is not confirmed yet. Try again, follow the link we sent, or ask for a new password.",
    ),
  accountSuspended: () =>
    forbidden("account_suspended", "This account is suspended. Write to the operator of this service."),
  noOperatorRole: () =>
    forbidden(
      "insufficient_role",
      "This account has no operator role. An operator with the role admin can give it one: PATCH /api/v1/admin/users/{id} {operator_role}.",
    ),
  passwordConfirmationRequired: () =>
    forbidden(
      "password_confirmation_required",
      `Confirm your password first: POST /api/v1/auth/confirm-password {password}, then send this request again. A confirmation counts for ${OPERATOR_CONFIRMATION_MINUTES} minutes.`,
    ),
  signupClosed: () =>
    forbidden("signup_closed", "Signing up is closed here. Ask the operator of this service for an account."),
  /** For the operator, who creates a user. `emailTaken` is for people who sign up. */
  userExists: () => conflict("name_taken", "A user with this e-mail address exists. Use another address.", "email"),
  emailTaken: () =>
    conflict("email_taken", "This address has an account already. Sign in, or ask for a new password.", "email"),
  budgetedKeyCannotMint: () =>
    forbidden(
      "budgeted_key",
      "An API key with a budget or limits cannot create or rotate other keys, or raise a key's limits: together they could use more than it may. Use another key.",
    ),
  apiKeyLimitReached: () =>
    conflict(
      "api_key_limit_reached",
      tooMany(USER_ROWS.api_keys, "API keys that are neither revoked nor expired", "Revoke one first."),
    ),
  keyRevoked: () => conflict("key_revoked", "A revoked key cannot be changed or rotated. Create another."),
  keyChanged: () => conflict("key_changed", "This key was changed at the same moment. Read it, and retry."),
  keyRotated: () =>
    conflict("key_rotated", "This key was rotated at the same moment. Use that answer, or rotate again."),
};
