import type { OperatorRole, Scope } from "../../api/contract/caller.ts";
import type { BudgetInterval, Limits, UserLimits } from "../../api/contract/key-terms.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { firstRow, GIVEN_HASHES, insertInto, oneRow, selectByHash } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";

export interface UserRow {
  id: string;
  email: string | null;
  created_at: Instant;
  suspended_at: Instant | null;
  erased_at: Instant | null;
  limits: UserLimits | null;
  operator_role: OperatorRole | null;
}

export interface ApiKeyRow {
  id: string;
  user_id: string;
  name: string;
  key_hash: Uint8Array;
  previous_key_hash: Uint8Array | null;
  previous_valid_until: Instant | null;
  prefix: string;
  last_four: string;
  scopes: Scope[];
  budget_tokens: number | null;
  budget_interval: BudgetInterval | null;
  allowed_models: readonly string[] | null;
  limits: Limits | null;
  created_at: Instant;
  expires_at: Instant | null;
  last_used_at: Instant | null;
  revoked_at: Instant | null;
}

/** The columns of a key that its dependents read. */
export type KeyTermsRow = Pick<
  ApiKeyRow,
  "id" | "budget_tokens" | "budget_interval" | "allowed_models" | "limits" | "expires_at" | "revoked_at"
>;

/** The columns of a key that its owner changes. */
export type KeySettings = Pick<
  ApiKeyRow,
  "name" | "budget_tokens" | "budget_interval" | "allowed_models" | "limits" | "expires_at"
>;

/** A key with the columns that authentication needs, and its owner's state. */
export interface KeyStatus extends ApiKeyRow {
  suspended_at: Instant | null;
  erased_at: Instant | null;
}

/**
 * A page of users. `search` matches a part of the address or the whole id, `email` the whole address; empty ones match
 * all users.
 */
export interface UserPage {
  search: string;
  email: string;
  limit: number;
  before_id: string | null;
}

/**
 * The routing bucket of a user, who gets `candidate` if they have none. Undefined: the user does not exist. All keys and
 * sessions begin with it, so it never changes.
 */
export async function getRoutingBucket(sql: Sql, user_id: string, candidate: string): Promise<string | undefined> {
  const [known] = await sql.query<{ bucket: string | null }>({
    name: "user_routing_bucket",
    text: "select routing_bucket as bucket from users where id = $1",
    values: [user_id],
  });
  if (known === undefined || known.bucket !== null) return known?.bucket ?? undefined;
  const [set] = await sql.query<{ bucket: string }>({
    text: "update users set routing_bucket = coalesce(routing_bucket, $2) where id = $1 returning routing_bucket as bucket",
    values: [user_id, candidate],
  });
  return set?.bucket;
}

const USER_COLUMNS = "id, email, created_at, suspended_at, erased_at, limits, operator_role";

/** By name: a prepared statement with `k.*` fails once a newer version has added a column. */
const KEY_COLUMNS = Object.keys({
  user_id: true,
  id: true,
  name: true,
  key_hash: true,
  previous_key_hash: true,
  previous_valid_until: true,
  prefix: true,
  last_four: true,
  scopes: true,
  budget_tokens: true,
  budget_interval: true,
  allowed_models: true,
  limits: true,
  created_at: true,
  expires_at: true,
  last_used_at: true,
  revoked_at: true,
} satisfies Record<keyof ApiKeyRow, true>);
const OF_KEYS = `select ${KEY_COLUMNS.join(", ")} from api_key`;

/** Condition on a key, with the time as $3. */
export const VALID_KEY = "revoked_at is null and (expires_at is null or expires_at > $3)";

const KEYS_BY_HASH = `select ${KEY_COLUMNS.map((column) => `k.${column}`).join(", ")}, u.suspended_at, u.erased_at, given.nth::integer as nth
  from ${GIVEN_HASHES}
  join api_key k on k.key_hash = decode(given.hash, 'hex') or k.previous_key_hash = decode(given.hash, 'hex')
  join users u on u.id = k.user_id`;

/** Statements about users. */
function userStatements(db: Db) {
  return {
    insertUser: (tx: Tx, { id, email, created_at }: Pick<UserRow, "id" | "email" | "created_at">) =>
      oneRow<UserRow>(tx, {
        text: `insert into users (id, email, created_at) values ($1, $2, $3) returning ${USER_COLUMNS}`,
        values: [id, email, created_at],
      }),
    user: (id: string) =>
      firstRow<UserRow>(db, {
        name: "user_find",
        text: `select ${USER_COLUMNS} from users where id = $1`,
        values: [id],
      }),
    users: ({ search, email, limit, before_id }: UserPage) =>
      db.query<UserRow>({
        text: `select ${USER_COLUMNS} from users where erased_at is null
            and ($1 = '' or strpos(lower(email), $1) > 0 or id::text = $1)
            and ($2 = '' or lower(email) = $2) and ($3::uuid is null or id < $3)
          order by id desc limit $4`,
        values: [search.toLowerCase(), email.toLowerCase(), before_id, limit],
      }),
    /** Returns the user and locks the row until the transaction ends. Only erasing takes a lock that stops inserts. */
    lockUser: (tx: Tx, id: string) =>
      firstRow<UserRow>(tx, {
        text: `select ${USER_COLUMNS} from users where id = $1 and erased_at is null for no key update`,
        values: [id],
      }),
    setLimits: (tx: Tx, id: string, limits: UserLimits | null) =>
      tx.query({ text: "update users set limits = $2::jsonb where id = $1", values: [id, jsonbOrNull(limits)] }),
    setEmail: (tx: Tx, id: string, email: string) =>
      tx.query({ text: "update users set email = $2 where id = $1", values: [id, email] }),
    setOperatorRole: (tx: Tx, id: string, operator_role: OperatorRole | null) =>
      tx.query({ text: "update users set operator_role = $2 where id = $1", values: [id, operator_role] }),
    setSuspended: (sql: Sql, id: string, suspended_at: Instant | null) =>
      firstRow<UserRow>(sql, {
        text: `update users set suspended_at = $2 where id = $1 and erased_at is null returning ${USER_COLUMNS}`,
        values: [id, suspended_at],
      }),
    async suspendedIds(sql: Sql, user_ids: readonly string[]): Promise<string[]> {
      if (user_ids.length === 0) return [];
      const rows = await sql.query<{ id: string }>({
        text: "select id from users where id = any($1::uuid[]) and suspended_at is not null",
        values: [user_ids],
      });
      return rows.map(({ id }) => id);
    },
    /** Returns the user's erased address. */
    async eraseUser(tx: Tx, id: string, erased_at: Instant): Promise<{ email: string } | undefined> {
      const rows = await tx.query<{ email: string }>({
        text: `update users set erased_at = $2, email = null, operator_role = null
          from (select id, email from users where id = $1 and erased_at is null for update) before
          where users.id = before.id returning before.email`,
        values: [id, erased_at],
      });
      return rows[0];
    },
  };
}

export function createAccountsStore(db: Db) {
  return {
    ...userStatements(db),
    insertKey: (sql: Sql, key: ApiKeyRow) => {
      const { allowed_models, limits } = key;
      const row = { ...key, allowed_models: jsonbOrNull(allowed_models), limits: jsonbOrNull(limits) };
      return sql.query(insertInto("api_key", row));
    },
    /** Deletes revoked and expired keys except the `most` that were created last. A key that another transaction reads stays. */
    forgetEndedKeys: (tx: Tx, user_id: string, { now, most }: { now: Instant; most: number }) =>
      tx.query({
        text: `delete from api_key where user_id = $1 and id in (
            select id from api_key where user_id = $1 and id <= (
              select id from api_key where user_id = $1 and not (${VALID_KEY}) order by id desc offset $2 limit 1
            ) and not (${VALID_KEY}) for update skip locked
          )`,
        values: [user_id, most, now],
      }),
    keys: (user_id: string, page: { limit: number; before_id: string | null }) =>
      db.query<ApiKeyRow>({
        text: `${OF_KEYS} where user_id = $1 and ($2::uuid is null or id < $2) order by id desc limit $3`,
        values: [user_id, page.before_id, page.limit],
      }),
    key: (user_id: string, id: string) =>
      firstRow<ApiKeyRow>(db, { text: `${OF_KEYS} where user_id = $1 and id = $2`, values: [user_id, id] }),
    /** Returns the key and locks it until the transaction ends. */
    lockKey: (tx: Tx, user_id: string, id: string) =>
      firstRow<ApiKeyRow>(tx, {
        text: `${OF_KEYS} where user_id = $1 and id = $2 for no key update`,
        values: [user_id, id],
      }),
    keyNames: (user_id: string, ids: readonly string[]) =>
      db.query<{ id: string; name: string }>({
        text: "select id, name from api_key where user_id = $1 and id = any($2::uuid[])",
        values: [user_id, ids],
      }),
    revokeKey: (tx: Tx, { user_id, id }: Pick<ApiKeyRow, "user_id" | "id">, revoked_at: Instant) =>
      tx.query({
        text: "update api_key set revoked_at = coalesce(revoked_at, $3) where user_id = $1 and id = $2",
        values: [user_id, id, revoked_at],
      }),
    /** Returns these keys and locks them until the transaction ends. */
    keepKeys: (tx: Tx, ids: readonly string[]) =>
      tx.query<KeyTermsRow>({
        name: "api_key_keep",
        text: `select id, budget_tokens, budget_interval, allowed_models, limits, expires_at, revoked_at from api_key
          where id in (select value::uuid from jsonb_array_elements_text($1::jsonb)) order by id for share`,
        values: [JSON.stringify(ids)],
      }),
    /** Returns undefined if the key was revoked or changed after `row` was read. */
    updateKey: (tx: Tx, row: ApiKeyRow, set: KeySettings) =>
      firstRow<ApiKeyRow>(tx, {
        text: `update api_key set name = $3, budget_tokens = $4, budget_interval = $5, allowed_models = $6, limits = $7,
            expires_at = $8
          where user_id = $1 and id = $2 and revoked_at is null and name = $9
            and (budget_tokens, budget_interval, allowed_models, limits, expires_at)
              is not distinct from ($10, $11, $12, $13, $14)
          returning ${KEY_COLUMNS.join(", ")}`,
        values: [row.user_id, row.id, ...settingValues(set), ...settingValues(row)],
      }),
    /** Revokes only the key or the previous secret with this hash. The secret that replaced it stays valid. */
    revokeKeyByHash: (tx: Tx, key_hash: Buffer, revoked_at: Instant) =>
      tx.query({
        text: `update api_key set revoked_at = case when key_hash = $1 then $2::timestamptz end,
            previous_valid_until = least(previous_valid_until, $2::timestamptz)
          where (key_hash = $1 or previous_key_hash = $1) and revoked_at is null`,
        values: [key_hash, revoked_at],
      }),
    revokeKeysOf: (tx: Tx, user_id: string, revoked_at: Instant) =>
      tx.query({
        text: "update api_key set revoked_at = $2 where user_id = $1 and revoked_at is null",
        values: [user_id, revoked_at],
      }),
    /** Removes the names of all keys, because people write names and addresses into them. */
    forgetKeyNames: (tx: Tx, user_id: string) =>
      tx.query({ text: "update api_key set name = '' where user_id = $1", values: [user_id] }),
    /** Returns undefined if the key's secret was replaced after it was read. */
    rotateKey: (
      tx: Tx,
      key: Pick<
        ApiKeyRow,
        "user_id" | "id" | "key_hash" | "prefix" | "last_four" | "previous_key_hash" | "previous_valid_until"
      >,
    ) =>
      firstRow<ApiKeyRow>(tx, {
        text: `update api_key set key_hash = $3, prefix = $4, last_four = $5, previous_key_hash = $6, previous_valid_until = $7
          where user_id = $1 and id = $2 and key_hash = $6 returning ${KEY_COLUMNS.join(", ")}`,
        values: [
          key.user_id,
          key.id,
          key.key_hash,
          key.prefix,
          key.last_four,
          key.previous_key_hash,
          key.previous_valid_until,
        ],
      }),
    /** Returns the keys with these current or previous hashes, in the order of the hashes. */
    keysByHash: (hashes: readonly Buffer[]) =>
      selectByHash<KeyStatus>(db, { name: "api_key_by_hash", text: KEYS_BY_HASH }, hashes),
    touchKeys: (ids: string[], last_used_at: Instant) =>
      db.query({
        text: "update api_key set last_used_at = greatest(last_used_at, $2) where id = any($1::uuid[])",
        values: [ids, last_used_at],
      }),
  };
}

/** A jsonb value as the driver takes it: it would send a list as a PostgreSQL array. */
function jsonbOrNull(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value);
}

const settingValues = ({ name, budget_tokens, budget_interval, allowed_models, limits, expires_at }: KeySettings) => [
  name,
  budget_tokens,
  budget_interval,
  jsonbOrNull(allowed_models),
  jsonbOrNull(limits),
  expires_at,
];

export type AccountsStore = ReturnType<typeof createAccountsStore>;
