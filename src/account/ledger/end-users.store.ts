import { USER_ROWS } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import { readStatement } from "../../platform/db/sql-functions.ts";
import { hasMoreRows } from "../../platform/db/statements.ts";
import { createSweepFailures } from "../../platform/db/sweeper.ts";
import { NIL_ID } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { ledgerErrors } from "./errors.ts";
import type { EndUserBudget } from "./usage.types.ts";

const FORGET_LABELS = readStatement(import.meta.dirname, "forget-labels");
/** Usage events that one transaction changes. */
const FORGOTTEN = 1_000;

/** What a change sets of a budget. */
interface BudgetChange {
  budget_tokens?: number | undefined;
  budget_interval?: EndUserBudget["budget_interval"] | undefined;
}

const BUDGETS = `select b.end_user as "user", b.budget_tokens, b.budget_interval, coalesce((
    select sum(cost) from usage_label_daily d where d.user_id = b.user_id and d.name = 'user' and d.value = b.end_user
      and (b.budget_interval is null or d.day >= date_trunc(b.budget_interval, $2::timestamptz at time zone 'UTC')::date)
  ), 0) as budget_used_tokens
  from end_user_budget b where b.user_id = $1`;

/** The budgets of end users: the `user` of requests. The batch of the ledger enforces them. */
export function createEndUsersStore(db: Db) {
  return {
    async find(user_id: string, end_user: string, now: Instant): Promise<EndUserBudget | undefined> {
      const [row] = await db.query<EndUserBudget>({
        text: `${BUDGETS} and b.end_user = $3`,
        values: [user_id, now, end_user],
      });
      return row;
    },
    /** In the order of their names, after the name `after`. */
    list: (user_id: string, now: Instant, page: { limit: number; after: string | null }): Promise<EndUserBudget[]> =>
      db.query({
        text: `${BUDGETS} and ($3::text is null or b.end_user > $3) order by b.end_user limit $4`,
        values: [user_id, now, page.after, page.limit],
      }),
    /** Omitted fields keep their value. Throws 400 for a new budget without tokens, 409 for one beyond the limit. */
    put: (user_id: string, end_user: string, { budget_tokens, budget_interval }: BudgetChange) =>
      db.transaction(async (tx) => {
        const known = await tx.query({
          text: `update end_user_budget set budget_tokens = coalesce($3, budget_tokens),
              budget_interval = case when $5 then $4 else budget_interval end
            where user_id = $1 and end_user = $2 returning end_user`,
          values: [user_id, end_user, budget_tokens ?? null, budget_interval ?? null, budget_interval !== undefined],
        });
        if (known.length > 0) return;
        if (budget_tokens === undefined) throw errors.missingField("budget_tokens");
        await tx.query({
          text: `insert into end_user_budget (user_id, end_user, budget_tokens, budget_interval) values ($1, $2, $3, $4)
            on conflict (user_id, end_user) do update set budget_tokens = $3, budget_interval = $4`,
          values: [user_id, end_user, budget_tokens, budget_interval ?? null],
        });
        const most = USER_ROWS.end_user_budgets;
        if (await hasMoreRows(tx, { table: "end_user_budget", user_id, most })) throw ledgerErrors.budgetLimitReached();
      }),
    async remove(user_id: string, end_user: string): Promise<boolean> {
      const rows = await db.query({
        text: "delete from end_user_budget where user_id = $1 and end_user = $2 returning end_user",
        values: [user_id, end_user],
      });
      return rows.length > 0;
    },
    /** Deletes the budgets of an erased user. After the commit, the labels of the user's calls are removed. */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      await tx.query({ text: "delete from end_user_budget where user_id = $1", values: [user_id] });
      await tx.query({ text: "delete from free_label_day where user_id = $1", values: [user_id] });
      // If it fails, the next sweep repeats it.
      tx.afterCommit(() => void forgetLabels(db, user_id).catch(() => {}));
    },
    /**
     * Removes the labels and budgets that requests of erased users wrote after the erasure. Called periodically. A failure
     * does not stop it, and is reported by an error at the end.
     */
    async sweep(): Promise<void> {
      const left = await db.query<{ user_id: string }>({
        text: `select id as user_id from users where erased_at is not null and (
            exists (select from usage_label_daily d where d.user_id = users.id)
            or exists (select from archived_label_daily d where d.user_id = users.id)
            or exists (select from end_user_budget b where b.user_id = users.id)
          ) order by id`,
      });
      const { attempt, throwAny } = createSweepFailures("removals of an erased user's labels");
      const forget = (user_id: string) =>
        forgetLabels(db, user_id).catch((cause: Error) => {
          throw new Error(`user ${user_id}: ${cause.message}`, { cause });
        });
      for (const { user_id } of left) await attempt(forget(user_id));
      throwAny();
    },
  };
}

/** Removes all labels of an erased user's calls. Their other sums stay. */
async function forgetLabels(db: Db, user_id: string): Promise<void> {
  let after = NIL_ID;
  for (;;) {
    const last = await db.transaction((tx) => forgetSome(tx, user_id, after));
    if (last === null) return;
    after = last;
  }
}

/** One step after the hold `after`. Returns the hold after which to continue; null: no call has labels. */
async function forgetSome(tx: Tx, user_id: string, after: string): Promise<string | null> {
  const values = [user_id];
  await tx.query({ text: "select from account where user_id = $1 for update", values });
  // An archive moves labelled rows to sums.
  await tx.query({ text: "select from archived_account where user_id = $1 for update", values });
  const [last] = await tx.query<{ hold_id: string }>({ text: FORGET_LABELS, values: [user_id, FORGOTTEN, after] });
  if (last !== undefined) return last.hold_id;
  // A call may have ended meanwhile with an older hold.
  if (after !== NIL_ID) return NIL_ID;
  // Only the sums of archived calls are left.
  await tx.query({ text: "delete from usage_label_daily where user_id = $1", values });
  await tx.query({ text: "delete from archived_label_daily where user_id = $1", values });
  await tx.query({ text: "delete from end_user_budget where user_id = $1", values });
  await tx.query({ text: "update hold set end_user = null where user_id = $1 and end_user is not null", values });
  return null;
}

export type EndUsers = ReturnType<typeof createEndUsersStore>;
