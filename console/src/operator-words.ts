import type { Answer } from "./api/client.ts";

type Act = Answer<"GET /api/v1/admin/acts">["acts"][number];

/** What an operator did, in words. */
export const ACT_WORDS: Readonly<Record<Act["what"], string>> = {
  "user.create": "Created a user",
  "user.update": "Changed a user",
  "user.suspend": "Suspended a user",
  "user.resume": "Resumed a user",
  "user.erase": "Erased a user",
  "user.export": "Exported a user's data",
  "tokens.grant": "Granted tokens",
  "tokens.adjust": "Adjusted a balance",
  "bucket.close": "Closed a bucket",
  "api_key.create": "Created an API key",
  "api_key.revoke": "Revoked an API key",
  "subscription.set": "Gave a plan",
  "subscription.cancel": "Cancelled a plan",
  "purchase.refund": "Refunded a purchase",
  "invoice.settle": "Settled an invoice",
  "configuration.reload": "Reloaded the configuration",
  "backup.create": "Made a backup",
  "clock.set": "Set the test clock",
  "operator_key.create": "Created an operator key",
  "operator_key.rotate": "Rotated an operator key",
  "operator_key.revoke": "Revoked an operator key",
};
