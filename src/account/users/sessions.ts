import { type Caller, type Operator, SCOPES } from "../../api/contract/caller.ts";
import type { SignedIn } from "../../api/contract/sign-in.ts";
import { OPERATOR_CONFIRMATION_MINUTES, SESSION_DAYS } from "../../kernel/constants.ts";
import { createBatches } from "../../platform/db/batch-queue.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { createNotifiedCache } from "../../platform/db/notified-cache.ts";
import { addDays, addSeconds, type Clock } from "../../platform/lib/clock.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { getRoutingBucket } from "./accounts.store.ts";
import { userErrors } from "./errors.ts";
import type { SessionStatus, SignInStore } from "./sign-in.store.ts";
import { hashToken, newRoutingBucket, newSessionToken, type RoutingBuckets } from "./tokens.ts";

/** The name of an account in the log of acts, which shows the present address instead. */
const OPERATOR_ACCOUNT = "operator account";
/** Sessions that one query looks up. */
const BATCH_LIMIT = 64;

/** Returns the session if it is valid now. Throws 401 or 403. Pure. */
export function judgeSession(session: SessionStatus | undefined, now: Instant): SessionStatus & { email: string } {
  if (session === undefined || session.erased_at !== null || session.email === null) throw userErrors.sessionExpired();
  if (session.expires_at <= now) throw userErrors.sessionExpired();
  if (session.suspended_at !== null) throw userErrors.accountSuspended();
  return { ...session, email: session.email };
}

const confirmedUntil = (confirmed_at: Instant) => addSeconds(confirmed_at, OPERATOR_CONFIRMATION_MINUTES * 60);
const isConfirmed = ({ password_confirmed_at }: SessionStatus, now: Instant) =>
  password_confirmed_at !== null && now < confirmedUntil(password_confirmed_at);

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
    /**
     * Returns the session's user as an operator. Throws 401 and 403 as `authenticate`, and 403 without an operator role or
     * a recent look at the password.
     */
    async authenticateOperator(token: string): Promise<Operator> {
      let session = await find(token);
      // The cached row may be older than a confirmation on another node.
      if (!isConfirmed(session, clock.now())) {
        forgetOf(session.user_id);
        session = await find(token);
      }
      const { user_id, operator_role } = session;
      if (operator_role === null) throw userErrors.noOperatorRole();
      if (!isConfirmed(session, clock.now())) throw userErrors.passwordConfirmationRequired();
      return { id: user_id, name: OPERATOR_ACCOUNT, role: operator_role };
    },
    /** Notes that the person of this session has given the password again. Returns until when that counts. */
    async confirm(token: string): Promise<Instant> {
      const now = clock.now();
      const token_hash = hashToken(token);
      const user_id = token_hash === null ? undefined : await store.confirmSession(token_hash, now);
      if (user_id === undefined) throw userErrors.sessionExpired();
      forgetOf(user_id);
      return confirmedUntil(now);
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
    /** Sessions are read again after the commit: their user was suspended or resumed, or has another operator role. */
    forgetAfter: (tx: Tx, user_id: string) => tx.afterCommit(() => forgetOf(user_id)),
    close: cache.close,
  };
}
