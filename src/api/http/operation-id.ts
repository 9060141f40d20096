/** The name of an operation for generated clients, from its method and path: `listAgents`, `getAgent`. Pure. */

const SIGN_IN = "/api/v1/auth/";
/** The area `billing` is left out of names: `listPurchases`. */
const ROOT = /^\/api\/v1\/(billing\/)?/;
/** Irregular names: the last part of the path is no resource, or another verb says it better. */
const NAMES: Readonly<Record<string, string>> = {
  "POST /api/v1/chat/completions": "createChatCompletion",
  "GET /api/v1/users/me": "getProfile",
  "GET /api/v1/users/me/usage": "getUsage",
  "GET /api/v1/users/me/buckets": "listBuckets",
  "GET /api/v1/users/me/transactions": "listTransactions",
  "GET /api/v1/users/me/transaction-groups": "listTransactionGroups",
  "GET /api/v1/users/me/holds": "listHolds",
  "POST /api/v1/agents/{id}/runs": "runAgent",
  "POST /api/v1/agents/{id}/chat": "chatWithAgent",
  "GET /api/v1/agents/{id}/runs/{run_id}/events": "followAgentRun",
  "GET /api/v1/billing/explain/{request_id}": "explainCharge",
  "POST /api/v1/billing/subscription": "subscribe",
  "DELETE /api/v1/billing/subscription": "cancelSubscription",
  "POST /api/v1/billing/purchase": "createPurchase",
  "POST /api/v1/billing/stripe/webhook": "receiveStripeEvent",
  "DELETE /api/v1/api-keys/{id}": "revokeApiKey",
  "POST /api/v1/safety/sanitize": "sanitizeText",
  "POST /api/v1/admin/users": "createUser",
  "GET /api/v1/admin/users": "listUsers",
  "GET /api/v1/admin/users/{id}": "getUser",
  "DELETE /api/v1/admin/users/{id}": "eraseUser",
  "POST /api/v1/admin/users/{id}/suspend": "suspendUser",
  "POST /api/v1/admin/users/{id}/resume": "resumeUser",
  "POST /api/v1/admin/users/{id}/grants": "grantTokens",
  "POST /api/v1/admin/users/{id}/subscription": "subscribeUser",
  "PATCH /api/v1/admin/users/{id}": "updateUser",
  "GET /api/v1/users/me/requests": "listRequests",
  "GET /api/v1/admin/usage": "getUsageOfAllUsers",
  "GET /api/v1/admin/runs": "listRunsOfAllUsers",
  "GET /api/v1/admin/runs/{run_id}": "getRunOfAnyUser",
  "GET /api/v1/admin/run-failures": "listRunFailures",
  "GET /api/v1/admin/models": "listModelsForOperators",
  "GET /api/v1/admin/users/{id}/usage": "getUsageOfUser",
  "POST /api/v1/admin/users/{id}/adjustments": "adjustBalance",
  "GET /api/v1/admin/users/{id}/requests/{request_id}": "explainChargeOfUser",
  "POST /api/v1/admin/purchases/{id}/refund": "refundPurchase",
  "GET /api/v1/admin/acts": "listActs",
  "GET /api/v1/admin/keys": "listOperatorKeys",
  "POST /api/v1/admin/keys": "createOperatorKey",
  "DELETE /api/v1/admin/keys/{id}": "revokeOperatorKey",
  "POST /api/v1/admin/keys/{id}/rotate": "rotateOperatorKey",
  "GET /api/v1/admin/audit": "auditLedger",
  "GET /api/v1/admin/clock": "getClock",
  "PUT /api/v1/admin/clock": "setClock",
  "POST /api/v1/admin/reload": "reloadConfiguration",
  "GET /api/v1/admin/overview": "getServiceOverview",
  "GET /api/v1/admin/settings": "getServiceSettings",
  "POST /api/v1/admin/providers/{name}/test": "testProvider",
  "POST /api/v1/admin/mail/test": "testMail",
  "POST /api/v1/admin/payments/test": "testPayments",
  "GET /api/v1/auth/get-session": "getSession",
  "POST /api/v1/auth/sign-in/email": "signIn",
  "POST /api/v1/auth/sign-up/email": "signUp",
};
const VERBS: Readonly<Record<string, string>> = { post: "create", put: "update", patch: "update", delete: "delete" };

/** The operation's name: a verb and its objects in camel case. Irregular operations have a name of their own. */
export function operationId(method: string, path: string): string {
  const named = NAMES[`${method.toUpperCase()} ${path}`];
  if (named !== undefined) return named;
  if (path.startsWith(SIGN_IN)) return camel([path.slice(SIGN_IN.length)]);
  const parts = path.replace(ROOT, "").split("/");
  const words = parts.filter((part) => !part.startsWith("{"));
  const last = words.at(-1) ?? "";
  const names_one = parts.at(-1)?.startsWith("{") === true;
  const is_list = last.endsWith("s") && !names_one;
  const before = words.slice(0, -1).map((word) => pascal(singular(word)));
  if (method === "get")
    return is_list ? camel(["list", ...before, last]) : camel(["get", ...before, names_one ? singular(last) : last]);
  // `POST /agents/{id}/run`: an act on the object before it.
  if (method === "post" && !is_list) return camel([last, ...before]);
  return camel([VERBS[method] ?? method, ...before, singular(last)]);
}

function singular(word: string): string {
  if (word.endsWith("ies")) return `${word.slice(0, -3)}y`;
  return word.endsWith("s") && !word.endsWith("ss") ? word.slice(0, -1) : word;
}

function pascal(word: string): string {
  return word
    .split(/[-_.]/)
    .map((part) => part.slice(0, 1).toUpperCase() + part.slice(1))
    .join("");
}

function camel([first = "", ...rest]: string[]): string {
  const name = pascal(first);
  return name.slice(0, 1).toLowerCase() + name.slice(1) + rest.map(pascal).join("");
}
