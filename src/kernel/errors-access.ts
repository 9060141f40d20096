import { failure } from "./purser-error.ts";

/** 401: the caller is unknown. 403: the caller may not do this. */

const unauthenticated = (code: string, message: string) =>
  failure({ status: 401, type: "authentication_error", code, message });
const forbidden = (code: string, message: string, param?: string) =>
  failure({ status: 403, type: "permission_error", code, message, param });

export const accessErrors = {
  missingApiKey: () =>
    unauthenticated(
      "missing_api_key",
      "Send your API key as `Authorization: Bearer <API_KEY>` or `x-api-key: <API_KEY>`.",
    ),
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
  modelNotTrialEligible: (model: string, param = "model") =>
    forbidden(
      "model_not_trial_eligible",
      `${model} is not part of the free trial. Subscribe or top up, or use a trial-eligible model.`,
      param,
    ),
  modelNotAllowed: (model: string, param = "model") =>
    forbidden(
      "model_not_allowed",
      `${model} is not among the models that this API key or account may use. GET /api/v1/models lists those.`,
      param,
    ),
  /** `param`: the field that needs the scope. */
  insufficientScope: (scope: string, param?: string) =>
    forbidden(
      "insufficient_scope",
      param === undefined
        ? `This API key lacks the scope ${scope}. Use a key that has it.`
        : `${param}: this API key lacks the scope ${scope}, which adding or widening a secret's binding needs. Use a key that has it, or leave the binding as it is.`,
      param,
    ),
  insufficientRole: (role: string, required: string) =>
    forbidden(
      "insufficient_role",
      `This operator key has the role ${role}, and this request needs the role ${required}. Use a key with that role.`,
    ),
  accountSuspended: () =>
    forbidden("account_suspended", "This account is suspended. Write to the operator of this service."),
  originRefused: () =>
    forbidden(
      "origin_refused",
      "This request does not come from the service's own pages. Open the console at PURSER_PUBLIC_URL, or use an API key.",
    ),
  proxyNotConfigured: () =>
    forbidden(
      "proxy_not_configured",
      "This service is set up for the people on its own machine, and this request came through a proxy or under another host name. Set PURSER_PUBLIC_URL to the address that people open, and PURSER_TRUSTED_PROXIES to the proxy's CIDR. Then restart the service.",
    ),
  signupClosed: () =>
    forbidden("signup_closed", "Signing up is closed here. Ask the operator of this service for an account."),
  budgetedKeyCannotMint: () =>
    forbidden(
      "budgeted_key",
      "An API key with a budget or limits cannot create or rotate other keys, or raise a key's limits: together they could use more than it may. Use another key.",
    ),
  overageRequiresSubscription: () =>
    forbidden("overage_requires_subscription", "Overage needs a subscription. Subscribe to a plan first."),
};
