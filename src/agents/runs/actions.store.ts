import type { Invariant } from "../../account/ledger/ledger.types.ts";
import type { DecidedBy, Outcome, RequiredAction } from "../../api/contract/run-actions.ts";
import type { RunError, RunStatus } from "../../api/contract/runs.ts";
import type { Sql, Tx } from "../../platform/db/db.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { jsonbText } from "../../platform/lib/json.ts";
import type { BudgetCaps, BudgetNeed } from "./budget-need.ts";
import { PHASE_OF_ONE, sqlNext } from "./run-state.ts";
import type { BudgetRelief, BudgetWait, CallAction, NewAction, RunActionKey, RunKey } from "./runs.types.ts";

/** What runs wait for, and the decisions: the table run_action. */

/** An action as its run's record has it, before its price. */
export type ActionJson = Omit<RequiredAction, "spent" | "budget"> & {
  budget: BudgetNeed | null;
  spent_tokens: number;
  decision: Outcome | null;
  reason_given: string | null;
  arguments_sent: unknown;
  decided_at: Instant | null;
  decided_by: DecidedBy | null;
};

/** Writes what a run waits for. A call that was asked about before is not asked about again. */
export async function insertActions(tx: Tx, { user_id, run_id }: RunKey, actions: readonly NewAction[]): Promise<void> {
  const rows = actions.map((action) => ({
    id: newId(),
    type: action.type,
    turn: action.turn,
    call: action.call,
    step: action.step,
    tool: action.tool,
    arguments: action.arguments,
    parameters: action.parameters,
    destination: action.destination,
    budget: action.budget,
    reason: action.reason,
    untrusted_sources: action.untrusted_sources ?? [],
    spent_tokens: action.spent_tokens,
    requested_at: action.requested_at,
    expires_at: action.expires_at,
  }));
  await tx.query({
    text: `insert into run_action (user_id, run_id, id, type, turn, call, step, tool, arguments, parameters, destination, budget, reason,
        untrusted_sources, spent_tokens, requested_at, expires_at)
      select $1, $2, id, type, turn, call, step, tool, arguments, parameters, destination, budget, reason,
        untrusted_sources, spent_tokens, requested_at, expires_at
      from jsonb_to_recordset($3::jsonb) as given(id uuid, type text, turn integer, call integer, step integer, tool text,
        arguments jsonb, parameters json, destination text, budget jsonb, reason text, untrusted_sources jsonb, spent_tokens bigint,
        requested_at timestamptz, expires_at timestamptz)
      on conflict (user_id, run_id, turn, call) do nothing`,
    values: [user_id, run_id, jsonbText(rows)],
  });
}

/** The actions about calls of a run, for the worker that resumes it. */
export async function selectCallActions(sql: Sql, { user_id, run_id }: RunKey): Promise<CallAction[]> {
  return sql.query<CallAction>({
    name: "run_call_actions",
    text: `select turn, call, decision, arguments, arguments_sent, reason_given from run_action
      where user_id = $1 and run_id = $2 and type = 'tool_approval'`,
    values: [user_id, run_id],
  });
}

/** An action with its run. */
export interface FoundAction {
  agent_id: string;
  agent_version: number;
  status: RunStatus;
  type: NewAction["type"];
  tool: string | null;
  arguments: unknown;
  parameters: Record<string, unknown> | null;
  budget: BudgetNeed | null;
  expires_at: Instant;
  decision: Outcome | null;
}

/** Locks the run, as every change of it does, until the transaction ends. */
export async function lockAction(tx: Tx, key: RunActionKey): Promise<FoundAction | undefined> {
  await lockRun(tx, key);
  return findAction(tx, key);
}

async function lockRun(tx: Tx, { user_id, run_id }: RunKey): Promise<void> {
  await tx.query({
    name: "run_action_lock",
    text: "select from run where user_id = $1 and id = $2 for no key update",
    values: [user_id, run_id],
  });
}

export async function findAction(sql: Sql, { user_id, run_id, id }: RunActionKey): Promise<FoundAction | undefined> {
  const [row] = await sql.query<FoundAction>({
    name: "run_action_find",
    text: `select run.agent_id, run.agent_version, run.status, type, tool, arguments, parameters, budget, expires_at, decision
      from run_action join run on run.user_id = run_action.user_id and run.id = run_action.run_id
      where run_action.user_id = $1 and run_action.run_id = $2 and run_action.id = $3`,
    values: [user_id, run_id, id],
  });
  return row;
}

export interface DecidedFields {
  decision: Outcome;
  reason_given: string | null;
  arguments_sent: unknown;
  decided_at: Instant;
  decided_by: DecidedBy | null;
}

/** Records the decision. True: no other action of the run is open. Its run is locked. */
export async function updateAction(
  tx: Tx,
  { user_id, run_id, id }: RunActionKey,
  { decision, reason_given, arguments_sent, decided_at, decided_by }: DecidedFields,
): Promise<boolean> {
  await tx.query({
    name: "run_action_decide",
    text: `update run_action set decision = $4, reason_given = $5, arguments_sent = $6::jsonb, decided_at = $7, decided_by = $8::jsonb
      where user_id = $1 and run_id = $2 and id = $3 and decision is null`,
    values: [
      user_id,
      run_id,
      id,
      decision,
      reason_given,
      arguments_sent == null ? null : jsonbText(arguments_sent),
      decided_at,
      decided_by === null ? null : jsonbText(decided_by),
    ],
  });
  return !(await hasOpenAction(tx, { user_id, run_id }));
}

async function hasOpenAction(tx: Tx, { user_id, run_id }: RunKey): Promise<boolean> {
  const open = await tx.query({
    name: "run_action_open",
    text: "select from run_action where user_id = $1 and run_id = $2 and decision is null limit 1",
    values: [user_id, run_id],
  });
  return open.length > 0;
}

/** The open actions of a run. */
export async function selectOpenActions(sql: Sql, { user_id, run_id }: RunKey): Promise<ActionJson[]> {
  const [row] = await sql.query<{ actions: ActionJson[] }>({
    name: "run_open_actions",
    text: "select run_actions($1, $2, true) as actions",
    values: [user_id, run_id],
  });
  return row?.actions ?? [];
}

/** The next instant up to `until` at which an open action expires. */
export async function selectNextExpiry(sql: Sql, until: Instant): Promise<Instant | null> {
  const [row] = await sql.query<{ at: Instant | null }>({
    name: "run_action_next",
    text: "select min(expires_at) as at from run_action where decision is null and expires_at <= $1",
    values: [until],
  });
  return row?.at ?? null;
}

/** Runs with open actions that have expired. */
export async function selectExpired(sql: Sql, now: Instant, limit: number): Promise<RunKey[]> {
  return sql.query<RunKey>({
    name: "run_action_expired",
    text: `select distinct user_id, run_id from (
        select user_id, run_id from run_action where decision is null and expires_at <= $1 order by expires_at limit $2
      ) as due`,
    values: [now, limit],
  });
}

/** Expires the due actions of a run. True: the run has no open action any more. */
export async function expireActions(tx: Tx, { user_id, run_id }: RunKey, now: Instant): Promise<boolean> {
  await lockRun(tx, { user_id, run_id });
  const expired = await tx.query({
    name: "run_action_expire",
    text: `update run_action set decision = 'expired', decided_at = $3
      where user_id = $1 and run_id = $2 and decision is null and expires_at <= $3 returning id`,
    values: [user_id, run_id, now],
  });
  return expired.length > 0 && !(await hasOpenAction(tx, { user_id, run_id }));
}

/** Runs that wait for tokens, of a user or of all users; `after` is the last one of the page before. */
export async function selectBudgetWaits(
  sql: Sql,
  { user_id, after, limit }: { user_id: string | null; after: RunActionKey | null; limit: number },
): Promise<BudgetWait[]> {
  return sql.query<BudgetWait>({
    name: "run_budget_waits",
    text: `select action.user_id, action.run_id, action.id, run.agent_id, action.budget
      from run_action as action join run on run.user_id = action.user_id and run.id = action.run_id
      where action.type = 'budget' and action.decision is null and ($1::uuid is null or action.user_id = $1)
        and ($2::uuid is null or (action.user_id, action.run_id, action.id) > ($2, $3::uuid, $4::uuid))
      order by action.user_id, action.run_id, action.id limit $5`,
    values: [user_id, after?.user_id ?? null, after?.run_id ?? null, after?.id ?? null, limit],
  });
}

/** The next instant up to `until` at which a month begins that a run waits for. */
export async function selectNextRenewal(sql: Sql, until: Instant): Promise<Instant | null> {
  const [row] = await sql.query<{ at: Instant | null }>({
    name: "run_budget_next",
    text: `select min((budget ->> 'renews_at')::timestamptz) as at from run_action
      where type = 'budget' and decision is null and (budget ->> 'renews_at')::timestamptz <= $1`,
    values: [until],
  });
  return row?.at ?? null;
}

/** The error of the run because nobody gave it tokens; undefined: that was not decided. */
export async function selectBudgetError(sql: Sql, { user_id, run_id }: RunKey): Promise<RunError | undefined> {
  const [row] = await sql.query<{ error: RunError }>({
    name: "run_budget_error",
    text: `select budget -> 'error' as error from run_action
      where user_id = $1 and run_id = $2 and type = 'budget' and decision in ('rejected', 'expired') limit 1`,
    values: [user_id, run_id],
  });
  return row?.error;
}

/**
 * Approves the actions of runs whose tokens have come, and queues the runs. It is the only open action of its run. Returns the
 * runs that still waited.
 */
export async function relieveActions(tx: Tx, reliefs: readonly BudgetRelief[], now: Instant): Promise<RunKey[]> {
  const rows = reliefs.map(({ user_id, run_id, id, relief, caps }) => ({ user_id, run_id, id, relief, caps }));
  return tx.query<RunKey>({
    name: "run_action_relieve",
    text: `with given as materialized (
        select * from jsonb_to_recordset($1::jsonb) as given(user_id uuid, run_id uuid, id uuid, relief text, caps jsonb)
      ), waiting as materialized (
        select given.* from run join given on run.user_id = given.user_id and run.id = given.run_id
        where ${PHASE_OF_ONE} = 'waiting' order by run.user_id, run.id for no key update of run
      ), relieved as (
        update run_action as action set decision = 'approved', reason_given = waiting.relief, decided_at = $2
        from waiting where action.user_id = waiting.user_id and action.run_id = waiting.run_id and action.id = waiting.id
          and action.decision is null
        returning action.user_id, action.run_id, waiting.caps
      )
      update run set status = ${sqlNext("resume")}, claimed_at = clock_timestamp(), engine_input = ${withRaisedCaps("relieved.caps")}
      from relieved where run.user_id = relieved.user_id and run.id = relieved.run_id
      returning run.user_id, run.id as run_id`,
    values: [jsonbText(rows), now],
  });
}

const withRaisedCaps = (caps: string) =>
  `engine_input || jsonb_build_object('raised_caps', coalesce(engine_input -> 'raised_caps', '{}') || ${caps})`;

/** Records caps with which the run goes on. Its other caps stay. */
export async function raiseCaps(tx: Tx, { user_id, run_id }: RunKey, caps: Partial<BudgetCaps>): Promise<void> {
  await tx.query({
    name: "run_raise_caps",
    text: `update run set engine_input = ${withRaisedCaps("$3::jsonb")} where user_id = $1 and id = $2`,
    values: [user_id, run_id, jsonbText(caps)],
  });
}

/** Invariants of what runs wait for. The audit checks them in the same snapshot as the ledger's. */
export const ACTION_INVARIANTS: readonly Invariant[] = [
  {
    invariant: "a run that waits for a decision has an open action, and no other run has one",
    text: `select user_id, format('run %s waits for nothing', id) as detail from run
        where phase <> 'ended' and status = 'requires_action' and not exists (
          select from run_action where run_action.user_id = run.user_id and run_id = run.id and decision is null
        )
      union all select run.user_id, format('run %s is %s and has an open action', run.id, status) from run_action
        join run on run.user_id = run_action.user_id and run.id = run_id where decision is null and status <> 'requires_action'`,
  },
  {
    invariant: "a call that a person was asked about was made as they approved it, or not at all",
    text: `select a.user_id, format('run %s, step %s: %s', a.run_id, a.step, coalesce(a.decision, 'open')) as detail
      from run_action a join run_step s on s.user_id = a.user_id and s.run_id = a.run_id and s.index = a.step
      where a.type = 'tool_approval' and (s.call is distinct from a.call or case
        when a.decision in ('approved', 'edited') then s.name <> a.tool or s.arguments is distinct from a.arguments_sent
        else s.status = 'succeeded'
      end)`,
  },
];
