import { runFailures, runForOperators, runsOfAll, runsOfUser, type runsQuery } from "../api/contract/admin-users.ts";
import { type AgentNamesOf, agentIdsIn, withAgentNames } from "../api/contract/agent-name.ts";
import { readPage } from "../api/contract/common.ts";
import { createRouter, json, type Router } from "../api/contract/endpoint.ts";
import type { RunRecord } from "../api/contract/runs.ts";
import type { z } from "../api/contract/zod.ts";
import { errors } from "../kernel/errors.ts";
import type { Db } from "../platform/db/db.ts";
import { addDays, type Clock } from "../platform/lib/clock.ts";
import { isUuid } from "../platform/lib/ids.ts";
import { readRunSteps, selectRunFailures } from "./runs.store.ts";
import { readEmails } from "./usage.store.ts";

/** Days that the failures are counted over, unless the request names the first one. */
const FAILURE_DAYS = 7;

type UserRun = RunRecord & { user_id: string };

interface RunsDeps {
  db: Db;
  clock: Clock;
  agentNames: AgentNamesOf;
  allRuns(
    filter: Omit<z.infer<typeof runsQuery>, "limit" | "cursor"> & { ids?: readonly string[] },
    page: { limit: number; before_id: string | null },
  ): Promise<UserRun[]>;
}

/** Runs of a user, or of all users, without what their agents read and wrote: contract 8.7. */
export function operatorRunsRoutes({ db, clock, agentNames, allRuns }: RunsDeps): Router {
  const router = createRouter();
  /** The runs with their users' addresses and their agents' names, in the same order. */
  const named = async (runs: readonly UserRun[]) => {
    const users = Map.groupBy(runs, ({ user_id }) => user_id);
    const [emails, ...parts] = await Promise.all([
      readEmails(db, [...users.keys()]),
      ...[...users].map(async ([user_id, own]) => withAgentNames(own, await agentNames(user_id, agentIdsIn(own)))),
    ]);
    const by_id = new Map(parts.flat().map((run) => [run.id, run]));
    return runs
      .flatMap(({ id }) => by_id.get(id) ?? [])
      .map((run) => ({ ...run, user_email: emails.get(run.user_id) ?? null }));
  };
  const list = async ({ limit, cursor, ...filter }: z.infer<typeof runsQuery>) => {
    const { page, next_cursor } = await readPage({ limit, cursor }, (page_of) => allRuns(filter, page_of));
    return { runs: await named(page), next_cursor };
  };
  router.on(runsOfAll, async (request) => json(await list(request.query)));
  router.on(runsOfUser, async (request) => {
    const user_id = await request.findUser(request.params.id);
    return json(await list({ ...request.query, user_id }));
  });
  router.on(runForOperators, async ({ params: { run_id } }) => {
    const found = isUuid(run_id) ? await allRuns({ ids: [run_id] }, { limit: 1, before_id: null }) : [];
    const [run] = await named(found);
    if (run === undefined) throw errors.unknown("This run");
    return json({ ...run, steps: await readRunSteps(db, { user_id: run.user_id, run_id: run.id }) });
  });
  router.on(runFailures, async ({ query }) => {
    const from = query.from ?? addDays(clock.now(), -FAILURE_DAYS);
    return json({ from, failures: await selectRunFailures(db, { ...query, from }) });
  });
  return router;
}
