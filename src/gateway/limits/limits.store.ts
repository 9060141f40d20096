import type { UserLimits } from "../../api/contract/key-terms.ts";
import type { Db } from "../../platform/db/db.ts";

/** One subject's part of an exchange with the database. */
export interface Ask {
  place: number;
  subject: string;
  /** The limit. */
  most: number;
  /** Requests that wait for an answer. */
  needed: number;
  /** Requests that are expected soon. */
  wanted: number;
  /** Tokens that calls have used since the last exchange. */
  spent: number;
  /** Requests of an earlier answer that were not used, and its slot. */
  returned: number;
  slot: number | null;
}

export interface Answer {
  place: number;
  granted: number;
  /** Used in the window, over all nodes. */
  used: number;
  slot: number;
  /** The time until the window has something free. */
  frees_in_ms: number;
}

export interface OwnLimits {
  user_id: string;
  limits: UserLimits | null;
  plan_id: string | null;
}

export function createLimitsStore(db: Db) {
  return {
    async exchange(asks: readonly Ask[]): Promise<Answer[]> {
      const [row] = await db.query<{ answers: Answer[] }>({
        name: "limit_take",
        text: "select limit_take($1) as answers",
        values: [JSON.stringify(asks)],
      });
      return row?.answers ?? [];
    },
    /** The limits that the operator gave the user, and the user's plan. */
    async ofUser(user_id: string): Promise<OwnLimits | undefined> {
      const [row] = await db.query<OwnLimits>({
        name: "limits_of_user",
        text: `select u.id as user_id, u.limits, s.plan ->> 'id' as plan_id from users u
          left join subscription s on s.user_id = u.id and s.status in ('active', 'past_due')
          where u.id = $1 limit 1`,
        values: [user_id],
      });
      return row;
    },
    /** Deletes windows that were not used for minutes. */
    sweep: () =>
      db.query({
        text: `delete from limit_window where subject in (
          select subject from limit_window where used_at < clock_timestamp() - interval '5 minutes'
            for update skip locked limit 10000)`,
      }),
  };
}
