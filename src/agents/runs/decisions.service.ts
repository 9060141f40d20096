import type { AgentKey } from "../../api/contract/agents.ts";
import type { DecidedBy, Decision, Outcome } from "../../api/contract/run-actions.ts";
import type { RunError } from "../../api/contract/runs.ts";
import type { ToolsConfig } from "../../api/contract/tools.ts";
import { errors } from "../../kernel/errors.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import { createSweepFailures, type DueSource } from "../../platform/db/sweeper.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { isUuid } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { stableJson } from "../../platform/lib/json.ts";
import { findSchemaFault, findValueFault } from "../../platform/lib/value-schema.ts";
import { checkCall } from "../tools/registry.ts";
import * as store from "./actions.store.ts";
import type { BudgetCaps, BudgetNeed } from "./budget-need.ts";
import { runErrors } from "./errors.ts";
import { notifyQueued, resumeRun } from "./run.store.ts";
import type { BudgetRelief, RunKey } from "./runs.types.ts";

/** Runs whose expired actions are read together. */
const EXPIRED_AT_ONCE = 100;

/** Which action of which run. */
export interface ActionKey extends AgentKey {
  run_id: string;
  action_id: string;
}

/** The decisions that runs wait for. */
export function createDecisions({ db, clock }: { db: Db; clock: Clock }) {
  /** Queues the run again in the transaction of what it waited for. */
  const resume = async (tx: Tx, run: RunKey): Promise<void> => {
    if (await resumeRun(tx, run)) await notifyQueued(tx);
  };
  return {
    /** The actions about the calls of a claimed run. */
    callActions: (run: RunKey) => store.selectCallActions(db, run),
    /**
     * Decides an action. The decision on the last open action queues the run again. 404; 409 if it is decided, its time is
     * over, the run does not wait, or the caller was shown other arguments; 400 for an edit that its tool does not take.
     */
    async decideAction(
      { user_id, agent_id, run_id, action_id }: ActionKey,
      { decision, arguments: given, reason }: Decision,
      by: { decided_by: DecidedBy; loadTools(): Promise<ToolsConfig> },
    ): Promise<void> {
      if (!isUuid(run_id) || !isUuid(action_id)) throw errors.notFound("This action");
      const key = { user_id, run_id, id: action_id };
      if (decision === "edit") {
        // Before the transaction, because it reads the agent and may check by a large schema. An action's call never changes.
        const asked = await store.findAction(db, key);
        if (asked?.agent_id !== agent_id) throw errors.notFound("This action");
        if (asked.decision === null) checkEdit(asked, given, await by.loadTools());
      }
      await db.transaction(async (tx) => {
        const action = await store.lockAction(tx, key);
        if (action?.agent_id !== agent_id) throw errors.notFound("This action");
        const now = clock.now();
        if (action.decision !== null) throw runErrors.actionDecided(action.decision);
        if (action.expires_at <= now) throw runErrors.actionDecided("expired");
        if (action.status !== "requires_action") throw runErrors.runDoesNotWait();
        if (decision === "approve" && given != null && stableJson(given) !== stableJson(action.arguments)) {
          throw runErrors.argumentsChanged();
        }
        const is_call = action.type === "tool_approval" && decision !== "reject";
        const is_last = await store.updateAction(tx, key, {
          decision: OUTCOME[decision],
          reason_given: reason?.trim() || null,
          arguments_sent: is_call ? (decision === "edit" ? given : action.arguments) : null,
          decided_at: now,
          decided_by: by.decided_by,
        });
        if (decision === "approve" && action.budget !== null)
          await store.raiseCaps(tx, key, approvedCaps(action.budget));
        if (is_last) await resume(tx, key);
      });
    },
    /** What a waiting run needs of tokens by this action; null: it is another action, or it is decided. */
    async budgetNeed({ user_id, run_id, action_id }: ActionKey): Promise<BudgetNeed | null> {
      const open = isUuid(run_id) ? await store.selectOpenActions(db, { user_id, run_id }) : [];
      return open.find(({ id }) => id === action_id)?.budget ?? null;
    },
    /** Runs that wait for tokens. */
    budgetWaits: (page: Parameters<typeof store.selectBudgetWaits>[1]) => store.selectBudgetWaits(db, page),
    nextBudgetRenewal: (until: Instant) => store.selectNextRenewal(db, until),
    /** The error of a claimed run to which nobody gave tokens; null: it may go on. */
    budgetError: async (run: RunKey): Promise<RunError | null> => (await store.selectBudgetError(db, run)) ?? null,
    /** Queues runs again that waited for tokens which have come. Returns those that were not decided meanwhile. */
    async relieveBudgets(reliefs: readonly BudgetRelief[]): Promise<RunKey[]> {
      if (reliefs.length === 0) return [];
      return db.transaction(async (tx) => {
        const relieved = await store.relieveActions(tx, reliefs, clock.now());
        if (relieved.length > 0) await notifyQueued(tx);
        return relieved;
      });
    },
    /** Actions whose time is over count as rejected. */
    expiries: {
      name: "approvals",
      nextDueAt: (until) => store.selectNextExpiry(db, until),
      async carryOut() {
        const failures = createSweepFailures("runs whose approval expired");
        const now = clock.now();
        for (let runs: RunKey[] = []; ; ) {
          runs = await store.selectExpired(db, now, EXPIRED_AT_ONCE);
          for (const run of runs) {
            const expire = async (tx: Tx) => {
              if (await store.expireActions(tx, run, now)) await resume(tx, run);
            };
            await failures.attempt(db.transaction(expire));
          }
          if (runs.length < EXPIRED_AT_ONCE) break;
        }
        failures.throwAny();
      },
    } satisfies DueSource,
  };
}

const OUTCOME = { approve: "approved", edit: "edited", reject: "rejected" } as const satisfies Record<
  Decision["decision"],
  Outcome
>;

/** The caps with which a run goes on after an approval. */
function approvedCaps({ cap_tokens, added_tokens }: BudgetNeed): Partial<BudgetCaps> {
  return added_tokens === null ? {} : { max_cost_tokens_per_run: (cap_tokens ?? 0) + added_tokens };
}

/** Throws 400 for arguments that the tool does not take. A person wrote them, so the run's content forbids nothing. */
function checkEdit(action: store.FoundAction, given: unknown, tools_config: ToolsConfig): void {
  if (action.type !== "tool_approval" || action.tool === null) {
    throw errors.invalidValue("decision", "Only the call of a tool can be edited. Approve or reject this action.");
  }
  if (given == null) throw errors.missingField("arguments", "They are what the call sends instead.");
  const checked = checkCall({
    name: action.tool,
    arguments_json: JSON.stringify(given),
    tools_config,
    taint: { tainted: false, owner_text: "", links: new Set() },
    earlier_calls: 0,
  });
  if ("failure" in checked) throw errors.invalidValue("arguments", checked.failure.error?.message ?? "arguments");
  const { parameters } = action;
  // The schema is its server's own, which may be none that this service can check by. The server checks then.
  if (parameters === null || findSchemaFault(parameters) !== null) return;
  const fault = findValueFault(parameters, given);
  if (fault === null) return;
  const at = ["arguments", ...fault.path].join(".");
  throw errors.invalidValue(at, `${at} ${fault.message}.`);
}
