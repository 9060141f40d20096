import type { Db, Sql, Tx } from "../platform/db/db.ts";
import { createConditions } from "../platform/db/statements.ts";
import type { Instant } from "../platform/lib/instant.ts";

/** One act as it is stored. `before` and `after` are JSON without e-mail addresses. */
export interface ActRow {
  seq: number;
  id: string;
  operator_id: string | null;
  operator_name: string;
  what: string;
  target_type: string;
  target_id: string | null;
  user_id: string | null;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  reason: string | null;
  request_id: string;
  created_at: Instant;
  hash: string;
  /** The account of the operator and its present address; null: a key, or an erased account. */
  operator_user_id: string | null;
  operator_email: string | null;
  /** null: the act has no address, or its user was erased. */
  email_before: string | null;
  email_after: string | null;
  /** The present address of the user; null: no user, or an erased one. */
  user_email: string | null;
  /** The reason of an act about a user, of which `reason` has the salted hash. null: none, or the user was erased. */
  kept_reason: string | null;
}

export type NewAct = Omit<
  ActRow,
  | "seq"
  | "hash"
  | "operator_user_id"
  | "operator_email"
  | "email_before"
  | "email_after"
  | "kept_reason"
  | "user_email"
  | "before"
  | "after"
> & {
  before: string | null;
  after: string | null;
};

/** The addresses and the reason of an act about a user, and the salt of their hashes. */
interface ActTexts {
  user_id: string;
  salt: string;
  email_before: string | null;
  email_after: string | null;
  reason: string | null;
}

export interface ActFilter {
  operator_id?: string | undefined;
  user_id?: string | undefined;
  what?: string | undefined;
  from?: Instant | undefined;
  to?: Instant | undefined;
}

export function createActsStore(db: Db) {
  const select = async (
    filter: ActFilter,
    page: { order: "asc" | "desc"; beyond_seq: number | null; limit: number },
  ): Promise<ActRow[]> => {
    const values: unknown[] = [page.limit];
    const { only, text: conditions } = createConditions(values);
    only(page.order === "desc" ? "a.seq <" : "a.seq >", page.beyond_seq);
    only("a.operator_id =", filter.operator_id);
    only("a.user_id =", filter.user_id);
    only("a.what =", filter.what);
    only("a.created_at >=", filter.from);
    only("a.created_at <", filter.to);
    return db.query<ActRow>({
      text: `select a.seq, a.id, a.operator_id, a.operator_name, a.what, a.target_type, a.target_id, a.user_id,
          a.before, a.after, a.reason, a.request_id, a.created_at, encode(a.hash, 'hex') as hash,
          m.email_before, m.email_after, m.reason as kept_reason, u.email as user_email,
          o.id as operator_user_id, o.email as operator_email
        from operator_act a left join operator_act_email m on m.seq = a.seq left join users u on u.id = a.user_id
          left join users o on o.id = a.operator_id
        where ${conditions()} order by a.seq ${page.order} limit $1`,
      values,
    });
  };

  return {
    select,
    async append(tx: Tx, act: NewAct, texts: ActTexts | null): Promise<void> {
      const [appended] = await tx.query<{ seq: number }>({
        text: "select append_act($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) as seq",
        values: [
          ...[act.id, act.operator_id, act.operator_name, act.what, act.target_type, act.target_id, act.user_id],
          ...[act.before, act.after, act.reason, act.request_id, act.created_at],
        ],
      });
      if (texts === null) return;
      await tx.query({
        text: "insert into operator_act_email (seq, user_id, salt, email_before, email_after, reason) values ($1, $2, $3, $4, $5, $6)",
        values: [appended?.seq, texts.user_id, texts.salt, texts.email_before, texts.email_after, texts.reason],
      });
    },
    deleteTexts: (sql: Sql, user_id: string) =>
      sql.query({ text: "delete from operator_act_email where user_id = $1", values: [user_id] }),
  };
}

/** Invariants of the log of acts. The audit of the ledger checks these invariants too, in the same snapshot. */
export const ACT_INVARIANTS = [
  {
    invariant: "acts of operators are numbered without a gap up to the end of their chain",
    text: `select null::uuid as user_id, format('chain %s, acts %s from %s to %s', c.seq, a.count, a.low, a.high) as detail
      from operator_act_chain c cross join (
        select count(*), coalesce(min(seq), 1) as low, coalesce(max(seq), 0) as high from operator_act
      ) a where (c.seq, c.seq, 1) is distinct from (a.count, a.high, a.low)`,
  },
  {
    invariant: "the hash of each operator's act is that of the act and the hash before",
    text: `select null::uuid as user_id, format('act %s', coalesce(a.seq, c.seq)) as detail
      from operator_act_chain c left join (
        select *, lag(hash, 1, decode(repeat('00', 32), 'hex')) over (order by seq) as previous,
            lead(hash) over (order by seq) as following
          from operator_act
      ) a on true
      where a.hash <> act_hash(a.previous, a.seq, a.id, a.operator_id, a.operator_name, a.what, a.target_type, a.target_id,
          a.user_id, a.before, a.after, a.reason, a.request_id, a.created_at)
        or (a.following is null and c.last_hash is distinct from coalesce(a.hash, decode(repeat('00', 32), 'hex')))`,
  },
  {
    invariant: "the e-mail addresses and the reason of an operator's act have the hashes that the act has",
    text: `select null::uuid as user_id, format('act %s', a.seq) as detail
      from operator_act_email m join operator_act a on a.seq = m.seq
      where encode(sha256(convert_to(m.salt || m.email_before, 'UTF8')), 'hex') is distinct from a.before ->> 'email_sha256'
        or encode(sha256(convert_to(m.salt || m.email_after, 'UTF8')), 'hex') is distinct from a.after ->> 'email_sha256'
        or m.reason is not null and a.reason is distinct from 'sha256:' || encode(sha256(convert_to(m.salt || m.reason, 'UTF8')), 'hex')`,
  },
];
