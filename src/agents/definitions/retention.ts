import type { Ledger } from "../../account/ledger/ledger.types.ts";
import type { AgentKey } from "../../api/contract/agents.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import { addDays, addSeconds, type Clock } from "../../platform/lib/clock.ts";
import { NIL_ID } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { Runs } from "../runs/runs.service.ts";
import type { OnPrune } from "../runs/runs.types.ts";
import type { Schedules } from "../schedules/schedules.service.ts";
import type { AgentsStore, DeletedAgent } from "./agents.store.ts";

/** A deleted agent is kept this long with its runs, and its name longer if charges name it. */
const DELETED_DAYS = 30;
/** One without usage: a loop of creates, runs and deletes would fill the disk. The charge of a call may come until then. */
const UNCHARGED_SECONDS = 3_600;
/** Interval between two searches for old data. */
const SEARCH_SECONDS = 3_600;
/** Limit of batches in one turn, so that a shutdown does not wait for a long backlog. The next turn continues. */
const BATCHES = 10;
/** Deleted agents whose runs are deleted together. */
const AGENTS = 100;

/** A cursor before all agents that were deleted at this instant or later. */
const cursorAt = (deleted_at: Instant): DeletedAgent => ({ deleted_at, user_id: NIL_ID, id: NIL_ID });
const getKey = ({ user_id, id }: DeletedAgent): AgentKey => ({ user_id, agent_id: id });

/**
 * Deletes runs older than `keep_days` (null: no limit) with their occurrences and turns, a user's runs that cost nothing
 * beyond a number, the runs of deleted agents, and deleted agents that no charge names.
 */
export function createRetention(deps: {
  db: Db;
  clock: Clock;
  runs: Pick<Runs, "pruneRuns" | "pruneUnpaidRuns" | "pruneRunsOf" | "agentsWithRuns">;
  schedules: Pick<Schedules, "pruneOccurrences">;
  onPrune: OnPrune;
  ledger: Pick<Ledger, "chargedAgents">;
  onDelete(tx: Tx, agents: readonly AgentKey[]): Promise<void>;
  store: Pick<AgentsStore, "deletedAgents" | "deleteAgents">;
  keep_days: number | null;
}) {
  const { db, clock, runs, schedules, ledger, onPrune, onDelete, store, keep_days } = deps;
  let next_search_at: Instant | null = null;
  let pruned_to: Parameters<Runs["pruneRuns"]>[0]["after"] = null;
  /** Cursors of the searches for deleted agents. A deleted agent is never restored, so neither search finds one twice. */
  let deleted_to = cursorAt("1970-01-01T00:00:00.000Z");
  // `pruneDeleted` finds agents that were deleted before this.
  let uncharged_to = cursorAt(addDays(clock.now(), -DELETED_DAYS));

  /** Deletes runs of deleted agents, and their names if nothing needs them. True: runs remain. */
  const forget = async (agents: readonly DeletedAgent[]): Promise<boolean> => {
    const keys = agents.map(getKey);
    if (await runs.pruneRunsOf(keys, onPrune)) return true;
    const named = [await runs.agentsWithRuns(keys), await ledger.chargedAgents(keys)];
    const unnamed = agents.filter(({ id }) => !named.some((ids) => ids.has(id)));
    await db.transaction(async (tx) => {
      await onDelete(tx, keys);
      await store.deleteAgents(tx, unnamed);
    });
    return false;
  };
  /** This function and the next ones resolve to true when there may be more. */
  const pruneDeleted = async (): Promise<boolean> => {
    const before = addDays(clock.now(), -Math.min(DELETED_DAYS, keep_days ?? DELETED_DAYS));
    const agents = await store.deletedAgents({ before, after: deleted_to, limit: AGENTS });
    if (agents.length > 0 && (await forget(agents))) return true;
    deleted_to = agents.at(-1) ?? deleted_to;
    return agents.length === AGENTS;
  };
  const pruneUncharged = async (): Promise<boolean> => {
    const before = addSeconds(clock.now(), -UNCHARGED_SECONDS);
    const agents = await store.deletedAgents({ before, after: uncharged_to, limit: AGENTS });
    const charged = await ledger.chargedAgents(agents.map(getKey));
    const uncharged = agents.filter(({ id }) => !charged.has(id));
    if (uncharged.length > 0 && (await forget(uncharged))) return true;
    uncharged_to = agents.at(-1) ?? uncharged_to;
    return agents.length === AGENTS;
  };
  const pruneOccurrences = async (): Promise<boolean> =>
    keep_days !== null && schedules.pruneOccurrences(addDays(clock.now(), -keep_days));
  const pruneRuns = async (): Promise<boolean> => {
    if (keep_days === null) return false;
    const which = { before: addDays(clock.now(), -keep_days), after: pruned_to };
    pruned_to = await runs.pruneRuns(which, onPrune);
    return pruned_to !== null;
  };
  const pruneUnpaid = () => runs.pruneUnpaidRuns(onPrune);

  return {
    /**
     * Call it every second or so. It searches once an hour, and in every call while there is a backlog. Idempotent,
     * safe on several nodes.
     */
    async pruneOld(): Promise<void> {
      const now = clock.now();
      if (next_search_at !== null && now < next_search_at) return;
      let left = BATCHES;
      // Occurrences first, so that no occurrence names a deleted run.
      for (const prune of [pruneDeleted, pruneUncharged, pruneOccurrences, pruneRuns, pruneUnpaid]) {
        while (left > 0 && (await prune())) left -= 1;
      }
      if (left > 0) next_search_at = addSeconds(now, SEARCH_SECONDS);
    },
  };
}
