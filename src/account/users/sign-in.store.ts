import type { OperatorRole } from "../../api/contract/caller.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { GIVEN_HASHES, selectByHash } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";

/** A session with the columns that every request needs, and its owner's state. */
export interface SessionStatus {
  user_id: string;
  email: string | null;
  expires_at: Instant;
  /** When the person last gave the password again; null: not in this session. */
  password_confirmed_at: Instant | null;
  suspended_at: Instant | null;
  erased_at: Instant | null;
  operator_role: OperatorRole | null;
}

/** A user who could sign in. Without a password until a mailed link sets one. */
export interface Person {
  id: string;
  email: string;
  suspended_at: Instant | null;
  password_hash: string | null;
  /** The address whose mailed link has set the password. */
  proven_email: string | null;
}

export interface NewPassword {
  user_id: string;
  hash: string;
  now: Instant;
  /** Null: no mailed link set it. An address that was proved before stays. */
  proven_email: string | null;
}

interface NewSession {
  token_hash: Buffer;
  user_id: string;
  created_at: Instant;
  expires_at: Instant;
}

export function createSignInStore(db: Db) {
  const person = async (sql: Sql, condition: string, value: string): Promise<Person | undefined> => {
    const rows = await sql.query<Person>({
      text: `select u.id, u.email, u.suspended_at, p.hash as password_hash, p.proven_email
        from users u left join password p on p.user_id = u.id where ${condition} and u.erased_at is null`,
      values: [value],
    });
    return rows[0];
  };
  return {
    personByEmail: (email: string) => person(db, "u.email = $1", email),
    personById: (id: string, sql: Sql) => person(sql, "u.id = $1", id),
    /** The address of a user who has set a password through a link that was mailed to it; otherwise null. */
    async provenAddress(id: string): Promise<string | null> {
      const found = await person(db, "u.id = $1", id);
      return found !== undefined && found.proven_email === found.email ? found.email : null;
    },

    /** False when the address is taken. */
    async insertUser(tx: Tx, user: { id: string; email: string; created_at: Instant }): Promise<boolean> {
      const rows = await tx.query({
        text: "insert into users (id, email, created_at) values ($1, $2, $3) on conflict (email) do nothing returning id",
        values: [user.id, user.email, user.created_at],
      });
      return rows.length > 0;
    },
    /** Locks the password's row until the transaction ends, so that no session starts concurrently. */
    async setPassword(tx: Tx, { user_id, hash, now, proven_email }: NewPassword): Promise<void> {
      await tx.query({
        text: `insert into password (user_id, hash, changed_at, proven_email) values ($1, $2, $3, $4)
          on conflict (user_id) do update set hash = excluded.hash, changed_at = excluded.changed_at,
            proven_email = coalesce(excluded.proven_email, password.proven_email)`,
        values: [user_id, hash, now, proven_email],
      });
    },

    /** Creates a session if the password hash is still `password_hash`. Returns false when it has changed. */
    async insertSession(sql: Sql, session: NewSession, password_hash: string): Promise<boolean> {
      const rows = await sql.query({
        text: `insert into session (token_hash, user_id, created_at, expires_at)
          select $1, user_id, $3, $4 from (select user_id from password where user_id = $2 and hash = $5 for share) p
          returning user_id`,
        values: [session.token_hash, session.user_id, session.created_at, session.expires_at, password_hash],
      });
      return rows.length > 0;
    },
    /** Returns the sessions of these tokens, in the order of the hashes. */
    sessions(hashes: readonly Buffer[]): Promise<(SessionStatus | undefined)[]> {
      const text = `select s.user_id, s.expires_at, s.password_confirmed_at, u.email, u.suspended_at, u.erased_at, u.operator_role,
          given.nth::integer as nth
        from ${GIVEN_HASHES}
        join session s on s.token_hash = decode(given.hash, 'hex') join users u on u.id = s.user_id`;
      return selectByHash(db, { name: "session_by_hash", text }, hashes);
    },
    /** Returns the session's user; undefined: the session has ended. */
    async confirmSession(token_hash: Buffer, now: Instant): Promise<string | undefined> {
      const rows = await db.query<{ user_id: string }>({
        text: "update session set password_confirmed_at = $2 where token_hash = $1 returning user_id",
        values: [token_hash, now],
      });
      return rows[0]?.user_id;
    },
    /** Returns the session's user. */
    async deleteSession(token_hash: Buffer): Promise<string | undefined> {
      const rows = await db.query<{ user_id: string }>({
        text: "delete from session where token_hash = $1 returning user_id",
        values: [token_hash],
      });
      return rows[0]?.user_id;
    },
    deleteSessions: (sql: Sql, user_id: string) =>
      sql.query({ text: "delete from session where user_id = $1", values: [user_id] }),

    insertSignUp: (tx: Tx, row: { token_hash: Buffer; email: string; expires_at: Instant }) =>
      tx.query({
        text: "insert into sign_up (token_hash, email, expires_at) values ($1, $2, $3)",
        values: [row.token_hash, row.email, row.expires_at],
      }),
    /** Returns the address of a valid link. All other sign-ups with this address end too. */
    async takeSignUp(tx: Tx, token_hash: Buffer, now: Instant): Promise<string | undefined> {
      const rows = await tx.query<{ email: string }>({
        text: "delete from sign_up where token_hash = $1 and expires_at > $2 returning email",
        values: [token_hash, now],
      });
      const email = rows[0]?.email;
      if (email !== undefined) await tx.query({ text: "delete from sign_up where email = $1", values: [email] });
      return email;
    },
    deleteSignUps: (tx: Tx, email: string) =>
      tx.query({ text: "delete from sign_up where email = $1", values: [email] }),

    insertReset: (tx: Tx, row: { token_hash: Buffer; user_id: string; expires_at: Instant }) =>
      tx.query({
        text: "insert into password_reset (token_hash, user_id, expires_at) values ($1, $2, $3)",
        values: [row.token_hash, row.user_id, row.expires_at],
      }),
    /** Returns the user whose password a valid link sets. */
    async takeReset(tx: Tx, token_hash: Buffer, now: Instant): Promise<string | undefined> {
      const rows = await tx.query<{ user_id: string }>({
        text: "delete from password_reset where token_hash = $1 and expires_at > $2 returning user_id",
        values: [token_hash, now],
      });
      return rows[0]?.user_id;
    },
    deleteResets: (tx: Tx, user_id: string) =>
      tx.query({ text: "delete from password_reset where user_id = $1", values: [user_id] }),

    deletePassword: (tx: Tx, user_id: string) =>
      tx.query({ text: "delete from password where user_id = $1", values: [user_id] }),
    async sweep(now: Instant): Promise<void> {
      await db.query({ text: "delete from session where expires_at <= $1", values: [now] });
      await db.query({ text: "delete from sign_up where expires_at <= $1", values: [now] });
      await db.query({ text: "delete from password_reset where expires_at <= $1", values: [now] });
    },
  };
}

export type SignInStore = ReturnType<typeof createSignInStore>;
