import type { FailingAgent, OverviewRecord } from "../api/contract/admin-service.ts";
import type { Db } from "../platform/db/db.ts";
import { readStatement } from "../platform/db/sql-functions.ts";
import type { Instant } from "../platform/lib/instant.ts";

const FAILING_AGENTS = readStatement(import.meta.dirname, "failing-agents");
const MOST_AGENTS = 10;

type Sums = OverviewRecord["runs"];
type FailingRow = Sums & (FailingAgent | { agent_id: null });

/** The runs that ended since an instant, and the agents whose runs failed. */
export async function readFailures(db: Db, since: Instant): Promise<{ runs: Sums; failing_agents: FailingAgent[] }> {
  const rows = await db.query<FailingRow>({ text: FAILING_AGENTS, values: [since, MOST_AGENTS] });
  const [{ ended, failed, failing_agents } = { ended: 0, failed: 0, failing_agents: 0 }] = rows;
  return { runs: { ended, failed, failing_agents }, failing_agents: rows.flatMap(toFailingAgent) };
}

function toFailingAgent(row: FailingRow): FailingAgent[] {
  if (row.agent_id === null) return [];
  const { agent_id, agent_name, user_id, user_email, runs, failed_runs, last_failed_at, last_run_id, last_error } = row;
  return [{ agent_id, agent_name, user_id, user_email, runs, failed_runs, last_failed_at, last_run_id, last_error }];
}

/** The runs of all users that a worker executes, and those that wait for a person. */
export async function readWork(db: Db): Promise<{ running: number; waiting: number }> {
  const [row] = await db.query<{ running: number; waiting: number }>({
    text: `select count(*) filter (where phase = 'working') as running, count(*) filter (where phase = 'waiting') as waiting
      from run where phase <> 'ended' and phase <> 'queued'`,
  });
  return row ?? { running: 0, waiting: 0 };
}

/** Mails of all users that the mail server has not taken yet. */
export async function countQueuedMails(db: Db): Promise<number> {
  const [row] = await db.query<{ queued: number }>({
    text: `select (select count(*) from mail) + (
        select count(*) from delivery d left join webhook_endpoint e on e.user_id = d.user_id and e.id = d.endpoint_id
        where d.status = 'pending' and coalesce(d.address, e.url) like 'mailto:%'
      ) as queued`,
  });
  return row?.queued ?? 0;
}

type MoneyToCollect = Omit<OverviewRecord["payments"], "provider">;

/** Invoices and subscriptions that nobody paid, and bills that are not what was ordered and were not returned. */
export async function readUnpaid(db: Db): Promise<MoneyToCollect> {
  const [row] = await db.query<MoneyToCollect>({
    text: `select
        (select count(*) from payment where purpose = 'overage' and status in ('pending', 'failed')) as unpaid_invoices,
        (select count(*) from subscription where status = 'past_due') as past_due_subscriptions,
        (select count(*) from payment where status = 'mismatch'
          and refunded_cents - refund_failed_cents < mismatch_cents) as mismatches`,
  });
  return row ?? { unpaid_invoices: 0, past_due_subscriptions: 0, mismatches: 0 };
}

/** Whether a person has an account that may do everything as an operator. */
export async function hasAdminAccount(db: Db): Promise<boolean> {
  const found = await db.query({
    text: "select id from users where operator_role = 'admin' and suspended_at is null limit 1",
  });
  return found.length > 0;
}
