import type { Db, Tx } from "../../platform/db/db.ts";

/** A mail that waits for the mail server. */
export interface QueuedMail {
  id: string;
  user_id: string | null;
  sealed: Uint8Array;
  /** The number of this try, from 1. A result of an expired claim has an old number and changes nothing. */
  attempts: number;
  /** The real time until it is given up; negative: it is over. */
  left_s: number;
}

/** Mails that the mail server has not taken yet. They have no text of a user. */
export function createMailStore(db: Db) {
  return {
    async insert(
      tx: Tx,
      mail: { id: string; user_id: string | null; email: string; sealed: Uint8Array; valid_s: number },
    ): Promise<void> {
      await tx.query({
        text: `insert into mail (id, user_id, email, sealed, give_up_at)
          values ($1, $2, $3, $4, clock_timestamp() + make_interval(secs => $5))`,
        values: [mail.id, mail.user_id, mail.email.toLowerCase(), mail.sealed, mail.valid_s],
      });
    },
    /** Claims up to `most` due mails for `claim_s`. */
    claim: ({ most, claim_s }: { most: number; claim_s: number }): Promise<QueuedMail[]> =>
      db.query({
        name: "mail_claim",
        text: `update mail set attempts = attempts + 1, next_attempt_at = clock_timestamp() + make_interval(secs => $2)
          where id in (
            select id from mail where next_attempt_at <= clock_timestamp() order by next_attempt_at limit $1
            for update skip locked
          ) returning id, user_id, sealed, attempts, extract(epoch from give_up_at - clock_timestamp())::float8 as left_s`,
        values: [most, claim_s],
      }),
    /** Tries again after `delay_s`. */
    async postpone({ id, attempts }: QueuedMail, delay_s: number): Promise<void> {
      await db.query({
        text: `update mail set next_attempt_at = clock_timestamp() + make_interval(secs => $3::float8)
          where id = $1 and attempts = $2`,
        values: [id, attempts, delay_s],
      });
    },
    async remove({ id, attempts }: QueuedMail): Promise<void> {
      await db.query({ text: "delete from mail where id = $1 and attempts = $2", values: [id, attempts] });
    },
    /** Removes the mails to an address. */
    async removeTo(tx: Tx, email: string): Promise<void> {
      await tx.query({ text: "delete from mail where email = $1", values: [email.toLowerCase()] });
    },
  };
}
