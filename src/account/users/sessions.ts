import { type Caller, SCOPES } from "../../api/contract/caller.ts";
import type { SignedIn } from "../../api/contract/sign-in.ts";
import { SESSION_DAYS } from "../../kernel/constants.ts";
import { createBatches } from "../../platform/db/batch-queue.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { createNotifiedCache } from "../../platform/db/notified-cache.ts";
import { addDays, type Clock } from "../../platform/lib/clock.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { getRoutingBucket } from "./accounts.store.ts";
import { userErrors } from "./errors.ts";
import type { SessionStatus, SignInStore } from "./sign-in.store.ts";
import { hashToken, newRoutingBucket, newSessionToken, type RoutingBuckets } from "./tokens.ts";

/** Sessions that one query looks up. */
const BATCH_LIMIT = 64;

/** Returns the session if it is valid now. Throws 401 or 403. Pure. */
export function judgeSession(session: SessionStatus | undefined, now: Instant): SessionStatus & { email: string } {
  if (session === undefined || session.erased_at !== null || session.email === null) throw userErrors.sessionExpired();
  if (session.expires_at <= now) throw userErrors.sessionExpired();
  if (session.suspended_at !== null) throw userErrors.accountSuspended();
  return { ...session, email: session.email };
}

/** Sessions of signed-in people, cached like API keys. An ended session is rejected on every node at once. */
export async function createSessions(deps: {
  db: Db;
  clock: Clock;
  store: SignInStore;
  routing_buckets: RoutingBuckets;
}) {
  const { db, clock, store, routing_buckets } = deps;
  const cache = await createNotifiedCache<SessionStatus>({
    db,
    channel: "session_changed",
    subjectOf: ({ user_id }) => user_id,
  });

  const forgetOf = (user_id: string) => cache.forget((session) => session.user_id === user_id);

  /** One query at a time, as for API keys. */
  const load = createBatches(BATCH_LIMIT, store.sessions);
  const find = async (token: string) => {
    const token_hash = hashToken(token);
    if (token_hash === null) throw userErrors.sessionExpired();
    const session = await cache.get(token_hash.toString("base64"), () => load(token_hash));
    return judgeSession(session, clock.now());
  };

  return {
    /** Creates a session for a user whose password matched `password_hash`. Returns null when it has changed since. */
    async begin(sql: Sql, user: { id: string; email: string }, password_hash: string) {
      const bucket = await getRoutingBucket(sql, user.id, newRoutingBucket(routing_buckets));
      if (bucket === undefined) return null;
      const { token, token_hash } = newSessionToken(bucket);
      const created_at = clock.now();
      const expires_at = addDays(created_at, SESSION_DAYS);
      const begun = await store.insertSession(
        sql,
        { token_hash, user_id: user.id, created_at, expires_at },
        password_hash,
      );
      if (!begun) return null;
      return { token, signed_in: { user: { id: user.id, email: user.email }, session: { expires_at } } };
    },
    /** Returns the user of `token`. Throws 401 when the session has ended. */
    async who(token: string): Promise<SignedIn> {
      const { user_id, email, expires_at } = await find(token);
      return { user: { id: user_id, email }, session: { expires_at } };
    },
    /** Returns the session's user as a caller of the API, with all scopes. */
    async authenticate(token: string): Promise<Caller> {
      const { user_id } = await find(token);
      const session_id = hashToken(token)?.toString("base64url") ?? "";
      return { user_id, api_key_id: null, session_id, key_budget_tokens: null, scopes: SCOPES };
    },
    async end(token: string): Promise<void> {
      const token_hash = hashToken(token);
      const user_id = token_hash === null ? undefined : await store.deleteSession(token_hash);
      if (user_id !== undefined) forgetOf(user_id);
    },
    async endAll(sql: Db | Tx, user_id: string): Promise<void> {
      await store.deleteSessions(sql, user_id);
      if ("in_transaction" in sql) sql.afterCommit(() => forgetOf(user_id));
      else forgetOf(user_id);
    },
    /** Sessions are read again after the commit: their user was suspended or resumed. */
    forgetAfter: (tx: Tx, user_id: string) => tx.afterCommit(() => forgetOf(user_id)),
    close: cache.close,
  };
}
