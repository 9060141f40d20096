import { FREE_DAY, IDEMPOTENCY_HOURS } from "../../kernel/constants.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import type { Cipher } from "../../platform/lib/cipher.ts";
import { addSeconds, type Clock } from "../../platform/lib/clock.ts";
import { NIL_ID } from "../../platform/lib/ids.ts";

/** The first answer, as it is replayed. */
export interface StoredAnswer {
  status: number;
  headers: Record<string, string>;
  body: Uint8Array;
}

export type Claim =
  | { state: "first" }
  | { state: "in_flight" }
  | { state: "mismatch" }
  /** The answer was about a user who was erased since. */
  | { state: "erased" }
  /** The request was carried out, and its answer was not kept. */
  | { state: "not_kept" }
  | { state: "answered"; answer: StoredAnswer };

interface Row {
  same_request: boolean;
  status: number | null;
  headers: Record<string, string> | null;
  body: Uint8Array | null;
}

/**
 * After this real time the same request may run again, because the node of its claim has died. A living node renews its
 * claims.
 */
const LOCK_SECONDS = 960;

/** The user id of the idempotency keys of PURSER_ADMIN_KEY. No user has it. Another operator has the id of its key or account. */
export const OPERATOR_ID = NIL_ID;
/** Beside the stored headers, never sent: the user whom an operator's answer is about (the index has this name too). */
const ABOUT_USER = "about-user";
/** In place of the stored headers of an answer without a body. */
const NOT_KEPT = "not-kept";

/** Answers are sealed, because one may show a new API key. Their day is counted in the domain's time. */
export function createIdempotencyStore({ db, clock, cipher }: { db: Db; clock: Clock; cipher: Cipher }) {
  const aDayAgo = () => addSeconds(clock.now(), -IDEMPOTENCY_HOURS * 3600);
  const contextOf = (key: { user_id: string; key: string }) => `${key.user_id} ${key.key}`;
  return {
    /**
     * Claims the key for this request, or returns the state of the request that claimed it before. A user who was erased
     * since the check of the key has no claims.
     */
    async claim(key: { user_id: string; key: string; request: Uint8Array }): Promise<Claim> {
      // Not a plain hash, because a reader of the rows could guess a short secret in the body.
      const request_hash = cipher.fingerprint(key.request, contextOf(key));
      // "do update … where" takes over a key that is older than a day or whose node died. Otherwise it returns no row.
      const taken = await db.query<{ key: string }>({
        name: "idempotency_claim",
        text: `insert into idempotency_key as k (user_id, key, request_hash, created_at, locked_until)
          select $1, $2, $3, $5, now() + make_interval(secs => $4)
            where not exists (select from users where id = $1 and erased_at is not null)
          on conflict (user_id, key) do update set request_hash = excluded.request_hash, status = null, headers = null,
            body = null, cost_nothing = true, created_at = excluded.created_at, locked_until = excluded.locked_until
          where k.created_at < $6
            or (k.status is null and k.locked_until < now() and k.request_hash = excluded.request_hash)
          returning key`,
        values: [key.user_id, key.key, request_hash, LOCK_SECONDS, clock.now(), aDayAgo()],
      });
      if (taken.length > 0) return { state: "first" };
      const [row] = await db.query<Row>({
        text: `select request_hash = $3 as same_request, status, headers, body from idempotency_key
          where user_id = $1 and key = $2`,
        values: [key.user_id, key.key, request_hash],
      });
      // released in between: the caller's retry will claim it
      if (row === undefined) return { state: "in_flight" };
      if (!row.same_request) return { state: "mismatch" };
      if (row.status === null) return { state: "in_flight" };
      if (row.body === null) return { state: row.headers?.[NOT_KEPT] === undefined ? "erased" : "not_kept" };
      const body = cipher.open(row.body, contextOf(key));
      if (body === null) throw new Error("a kept answer does not open: was its row changed?");
      const { [ABOUT_USER]: _, ...headers } = row.headers ?? {};
      return { state: "answered", answer: { status: row.status, headers, body } };
    },

    /** Extends the claim of a running request. False: it was answered, released or swept. */
    async renew(key: { user_id: string; key: string }): Promise<boolean> {
      const renewed = await db.query<{ key: string }>({
        name: "idempotency_renew",
        text: `update idempotency_key set locked_until = now() + make_interval(secs => $3)
          where user_id = $1 and key = $2 and status is null returning key`,
        values: [key.user_id, key.key, LOCK_SECONDS],
      });
      return renewed.length > 0;
    },

    /**
     * Stores the answer. One that is about a user who was erased meanwhile is stored without its body. `cost_nothing`:
     * it has a limit (`hasRoom`).
     */
    async answer(
      key: { user_id: string; key: string },
      answer: StoredAnswer,
      { about_user_id, cost_nothing }: { about_user_id: string | null; cost_nothing: boolean },
    ): Promise<void> {
      const about = about_user_id === null ? {} : { [ABOUT_USER]: about_user_id };
      await db.query({
        text: `with erased as (select erased_at from users where id = $6 for share)
          update idempotency_key set status = $3, headers = $4::jsonb, cost_nothing = $7,
            body = case when exists (select from erased where erased_at is not null) then null else $5::bytea end
          where user_id = $1 and key = $2`,
        values: [
          key.user_id,
          key.key,
          answer.status,
          JSON.stringify({ ...answer.headers, ...about }),
          cipher.seal(answer.body, contextOf(key)),
          about_user_id,
          cost_nothing,
        ],
      });
    },
    /** Stores that the request was carried out, without its answer. */
    async answerWithoutBody(key: { user_id: string; key: string }, status: number): Promise<void> {
      await db.query({
        text: "update idempotency_key set status = $3, headers = $4::jsonb, body = null where user_id = $1 and key = $2",
        values: [key.user_id, key.key, status, JSON.stringify({ [NOT_KEPT]: "1" })],
      });
    },

    /** contract 2.6.4: whether an answer that cost nothing may be kept beside the user's others of a day. */
    async hasRoom(user_id: string, { body }: StoredAnswer): Promise<boolean> {
      const { small_answers, small_answer_bytes, large_answers_bytes } = FREE_DAY;
      if (body.length <= small_answer_bytes) {
        const [kept] = await db.query<{ answers: number }>({
          name: "idempotency_small",
          text: `select count(*) as answers from (
              select from idempotency_key where user_id = $1 and cost_nothing limit $2
            ) as counted`,
          values: [user_id, small_answers + 1],
        });
        // The claim of this request is one of them.
        return (kept?.answers ?? 0) <= small_answers;
      }
      const [kept] = await db.query<{ bytes: number }>({
        name: "idempotency_large",
        text: `select coalesce(sum(octet_length(body)), 0) as bytes from idempotency_key
          where user_id = $1 and cost_nothing and octet_length(body) > $2`,
        values: [user_id, small_answer_bytes],
      });
      return (kept?.bytes ?? 0) + body.length <= large_answers_bytes;
    },

    /** Deletes the key: the request did nothing, so a retry may run. */
    async release(key: { user_id: string; key: string }): Promise<void> {
      await db.query({
        text: "delete from idempotency_key where user_id = $1 and key = $2",
        values: [key.user_id, key.key],
      });
    },

    /**
     * Deletes all stored answers of a user, and the bodies of operators' answers about them. The operators' keys stay, so
     * that a late retry does not create the user again.
     */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      await tx.query({ text: "delete from idempotency_key where user_id = $1", values: [user_id] });
      await tx.query({
        text: `update idempotency_key set headers = null, body = null
          where headers ->> '${ABOUT_USER}' = $1::uuid::text`,
        values: [user_id],
      });
    },

    /** Deletes keys older than a day. Called periodically. */
    async sweep(): Promise<void> {
      await db.query({ text: "delete from idempotency_key where created_at < $1", values: [aDayAgo()] });
    },
  };
}

export type IdempotencyStore = ReturnType<typeof createIdempotencyStore>;
