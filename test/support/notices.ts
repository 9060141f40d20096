import { randomBytes } from "node:crypto";
import type { ResultDeps } from "../../src/account/notices/deliveries.service.ts";
import type { MailDeps } from "../../src/account/notices/mail-delivery.ts";
import { createNotices, type Notices } from "../../src/account/notices/notices.service.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createCipher } from "../../src/platform/lib/cipher.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createMailer } from "../../src/platform/net/mail.ts";
import { createOutbound } from "../../src/platform/net/outbound.ts";
import type { Resolve } from "../../src/platform/net/resolver.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createMetrics } from "../../src/platform/telemetry/metrics.ts";

const KEY = randomBytes(32);

/** The notices of one node over `db`. Deliveries begin after a start. All nodes of a test share the key. */
export function noticesNode(
  db: Db,
  options: {
    allow?: string[];
    resolve?: Resolve;
    key?: Buffer;
    mail?: Pick<MailDeps, "mailer" | "addressOf">;
    results?: ResultDeps;
  } = {},
): Notices {
  const { allow = [], resolve, key = KEY, mail, results } = options;
  const log = createLog("silent");
  return createNotices({
    db,
    clock: createSystemClock(),
    cipher: createCipher(key, "webhook endpoints"),
    outbound: createOutbound({ allow, ...(resolve === undefined ? {} : { resolve }) }),
    egress_allow: allow,
    log,
    metrics: createMetrics(),
    mail: {
      mailer: createMailer(null, { log, clock: createSystemClock() }),
      addressOf: async () => null,
      agentNames: async () => new Map(),
      url: () => "http://127.0.0.1",
      ...mail,
    },
    results: { resultOf: async () => null, signingKeyOf: async () => null, ...results },
  });
}

/** The notice of a failed run, a new run unless `run_id` is given. */
export function failedRun(user_id: string, run_id = newId()) {
  const data = { agent_id: newId(), run_id, trigger: "manual" as const, error_code: "timeout", error_message: "late" };
  return { user_id, event: "run.failed" as const, dedupe_key: run_id, data };
}

/** Makes pending deliveries due now, also deliveries that wait for a retry or for the end of a lost claim. */
export async function makeDue(db: Db): Promise<void> {
  await db.query({ text: "update delivery set next_attempt_at = clock_timestamp() where status = 'pending'" });
  await db.notify("delivery_due", "");
}
