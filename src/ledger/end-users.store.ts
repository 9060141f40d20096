import type { Db, Instant } from "../platform/db.ts";
import type { EndUserBudget } from "./usage.types.ts";

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
    put: (user_id: string, end_user: string, to: Pick<EndUserBudget, "budget_tokens" | "budget_interval">) =>
      db.query({
        text: `insert into end_user_budget (user_id, end_user, budget_tokens, budget_interval) values ($1, $2, $3, $4)
          on conflict (user_id, end_user) do update set budget_tokens = $3, budget_interval = $4`,
        values: [user_id, end_user, to.budget_tokens, to.budget_interval],
      }),
    async remove(user_id: string, end_user: string): Promise<boolean> {
      const rows = await db.query({
        text: "delete from end_user_budget where user_id = $1 and end_user = $2 returning end_user",
        values: [user_id, end_user],
      });
      return rows.length > 0;
    },
  };
}

export type EndUsers = ReturnType<typeof createEndUsersStore>;
