import { SESSION_DAYS } from "../constants.ts";
import { type Caller, SCOPES } from "../contract/caller.ts";
import type { SignedIn } from "../contract/sign-in.ts";
import { errors } from "../errors.ts";
import { addDays, type Clock } from "../platform/clock.ts";
import type { Db, Instant, Sql, Tx } from "../platform/db.ts";
import { createNotifiedCache } from "../platform/notified-cache.ts";
import { hashToken, newToken } from "./secret-token.ts";
import type { SessionStanding, SignInStore } from "./sign-in.store.ts";

/** What a session that was found is good for now; throws the 401 or 403. Pure. */
export function judgeSession(standing: SessionStanding | undefined, now: Instant): SessionStanding & { email: string } {
  if (standing === undefined || standing.erased_at !== null || standing.email === null) throw errors.sessionExpired();
  if (standing.expires_at <= now) throw errors.sessionExpired();
  if (standing.suspended_at !== null) throw errors.accountSuspended();
  return { ...standing, email: standing.email };
}

/** Sessions of people who are signed in, cached as API keys are: one that ended is refused on every node at once. */
export async function createSessions(deps: { db: Db; clock: Clock; store: SignInStore }) {
  const { db, clock, store } = deps;
  const cache = await createNotifiedCache<SessionStanding>({
    db,
    channel: "session_changed",
    subjectOf: ({ user_id }) => user_id,
  });

  const find = async (token: string) => {
    const token_hash = hashToken(token);
    if (token_hash === null) throw errors.sessionExpired();
    const standing = await cache.get(token_hash.toString("base64"), () => store.session(token_hash));
    return judgeSession(standing, clock.now());
  };

  return {
    /** Begins a session for who has just shown `password_hash`; null when it was changed in between. */
    async begin(sql: Sql, user: { id: string; email: string }, password_hash: string) {
      const { token, token_hash } = newToken();
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
    /** Who is signed in with `token`; 401 when nobody is any more. */
    async who(token: string): Promise<SignedIn> {
      const { user_id, email, expires_at } = await find(token);
      return { user: { id: user_id, email }, session: { expires_at } };
    },
    /** The same person as a caller of the API, with all scopes. */
    async authenticate(token: string): Promise<Caller> {
      const { user_id } = await find(token);
      return { user_id, api_key_id: null, key_budget_tokens: null, scopes: SCOPES };
    },
    async end(token: string): Promise<void> {
      const token_hash = hashToken(token);
      if (token_hash !== null) await store.deleteSession(token_hash);
    },
    async endAll(sql: Sql | Tx, user_id: string): Promise<void> {
      await store.deleteSessions(sql, user_id);
    },
    close: cache.close,
  };
}
