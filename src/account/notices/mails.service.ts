import type { Db, Tx } from "../../platform/db/db.ts";
import type { Cipher } from "../../platform/lib/cipher.ts";
import { coalesced } from "../../platform/lib/coalesced.ts";
import { newId } from "../../platform/lib/ids.ts";
import { raceAbort } from "../../platform/lib/race-abort.ts";
import { backoff } from "../../platform/lib/retry.ts";
import { isRefusedForGood, type Mail, type Mailer } from "../../platform/net/mail.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Metrics } from "../../platform/telemetry/metrics.ts";
import { createMailStore, type QueuedMail } from "./mail.store.ts";

/** Seconds from each failed try to the next. Greylisting takes minutes, an outage hours. The last value repeats. */
const DELAYS_S = backoff({ first: 1, max: 3_600, retries: 7 });
/** Concurrent mails of this node. */
const CONCURRENT_MAILS = 8;
/** Above the longest try. Then another node may send the mail, with the same Message-ID. */
const CLAIM_S = 120;
const TRY_TIMEOUT_MS = 60_000;
const POLL_MS = 1_000;

const TOO_OLD = { status: null, error: "link_too_old" };

/** A mail with a link, to whoever reads the mailbox. */
export interface LinkMail extends Omit<Mail, "id"> {
  /** The user of the address; null: it has none yet. */
  user_id: string | null;
  /** How long its link is good for. After this time the mail is given up. */
  valid_s: number;
}

/**
 * Mails of sign-ups and resets, stored until the mail server takes them. Without a mail server, the log shows their links.
 */
export function createMails(deps: {
  db: Db;
  cipher: Cipher;
  mailer: Mailer;
  log: Log;
  metrics: Pick<Metrics, "mailTry">;
}) {
  const { db, cipher, mailer, log, metrics } = deps;
  const store = createMailStore(db);
  const running = new Set<Promise<void>>();
  let is_stopping = false;
  let timer: NodeJS.Timeout | undefined;

  const carryOut = async (queued: QueuedMail) => {
    const opened = cipher.open(queued.sealed, queued.id);
    if (opened === null) throw new Error("a stored mail does not open: was its row changed?");
    const { id, user_id, attempts, left_s } = queued;
    const about = { mail_id: id, user_id, try: attempts };
    const mail: Mail = { ...JSON.parse(opened.toString()), id };
    const result = left_s <= 0 ? TOO_OLD : await tryOnce(mail, about);
    if (result.error === null) {
      metrics.mailTry("link", "sent");
      return store.remove(queued);
    }
    const delay_s = DELAYS_S[Math.min(attempts, DELAYS_S.length) - 1] ?? 0;
    if (isRefusedForGood(result) || delay_s > left_s) {
      metrics.mailTry("link", "failed");
      log.error({ ...about, code: result.error, smtp_status: result.status }, "a mail was given up");
      return store.remove(queued);
    }
    metrics.mailTry("link", "retry");
    return store.postpone(queued, delay_s);
  };
  /** The server may still take a mail after the timeout. Then it comes twice, with the same Message-ID. */
  const tryOnce = (mail: Mail, about: { try: number }) =>
    raceAbort(mailer.trySend(mail, about), AbortSignal.timeout(TRY_TIMEOUT_MS)).catch((error: unknown) => {
      if ((error as Error).name === "TimeoutError") return { status: null, error: "timeout" };
      throw error;
    });
  const begin = (queued: QueuedMail) => {
    const done = carryOut(queued)
      .catch((error: Error) => log.error({ mail_id: queued.id, error }, "a mail is tried again when its claim expires"))
      .finally(() => {
        running.delete(done);
        filling.run();
      });
    running.add(done);
  };
  const claim = async () => {
    const most = CONCURRENT_MAILS - running.size;
    if (is_stopping || most <= 0) return;
    for (const queued of await store.claim({ most, claim_s: CLAIM_S })) begin(queued);
  };
  const filling = coalesced(() =>
    claim().catch((error: Error) => log.error({ error }, "Mails could not be claimed; the next turn tries again.")),
  );

  return {
    delivery: mailer.delivery,
    /** Sends the mail once the transaction has committed, and again until the mail server takes it. */
    async send(tx: Tx, { user_id, valid_s, ...mail }: LinkMail): Promise<void> {
      if (mailer.delivery === "log") {
        tx.afterCommit(() => mailer.showLink(mail));
        return;
      }
      const id = newId();
      const sealed = cipher.seal(Buffer.from(JSON.stringify(mail)), id);
      await store.insert(tx, { id, user_id, email: mail.to, sealed, valid_s });
      tx.afterCommit(filling.run);
    },
    /** Starts sending. */
    start(): void {
      if (mailer.delivery === "log") return;
      timer = setInterval(filling.run, POLL_MS);
      filling.run();
    },
    /** Waits for the mails in progress. Others are sent by another node, or after the next start. */
    async stop(): Promise<void> {
      clearInterval(timer);
      is_stopping = true;
      await filling.done();
      await Promise.all(running);
    },
    /** Removes the mails to the address of a user who is being erased. */
    forgetAddress: store.removeTo,
  };
}

export type Mails = ReturnType<typeof createMails>;
