import { useMutation, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { call } from "../api/client.ts";
import {
  type Agent,
  erroneousRunsQuery,
  type FoundRun,
  profileQuery,
  returnedSecretsQuery,
  stale,
  troubledAgentsQuery,
  usageQuery,
} from "../api/queries.ts";
import { daysInWords, type Forecast, forecast } from "../forecast.ts";
import { ago } from "../format.ts";
import { inWords, scheduleReason } from "../service-words.ts";
import { Button, buttonClass, Card, Status } from "../ui/basics.tsx";
import { ProblemNotice, Unloaded } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { LONGER_DAYS } from "../unusual.ts";

/** A balance that lasts for fewer days is named. */
const LOW_DAYS = 7;

/** What needs the person, by agent, each with its button. */
export function NeedsYou() {
  const { data, error, refetch } = useQuery(troubledAgentsQuery);
  const { data: runs = [], isPending } = useQuery(erroneousRunsQuery);
  const { data: secrets = [] } = useQuery(returnedSecretsQuery);
  const low = useLowBalance();
  if (data === undefined || isPending) return <Unloaded error={error} refetch={refetch} />;
  // A disabled agent runs by no schedule, so it may have nothing to show.
  const troubled = data.agents
    .map((agent) => ({ agent, failing: failingRun(agent, runs) }))
    .filter(({ agent, failing }) => failing !== null || agent.is_active);
  const is_empty = troubled.length === 0 && secrets.length === 0 && low === null;
  return (
    <Card title="Needs you" className="mb-4" flush>
      {is_empty && <p className="px-4 pb-4 text-muted">Nothing: no agent fails, and no schedule is paused.</p>}
      <ul>
        {troubled.map(({ agent, failing }) => (
          <li key={agent.id} className={ROW}>
            <h3 className="font-medium wrap-anywhere">
              <Link to="/agents/$id" params={{ id: agent.id }} className="hover:underline">
                {agent.name}
              </Link>
            </h3>
            <div className="mt-1 space-y-2">
              {failing !== null && (
                <Failing agent={agent} run={failing} reason={runs.find(({ id }) => id === failing.id)?.first_line} />
              )}
              {isPaused(agent) && <Paused agent={agent} />}
              {failing === null && !isPaused(agent) && <OtherSchedule agent={agent} />}
            </div>
          </li>
        ))}
        {data.more && (
          <li className={ROW}>
            <Need
              button={
                <Link to="/runs" search={{ status: "any_error" }} className={buttonClass()}>
                  View runs with errors
                </Link>
              }
            >
              More agents have errors or a paused schedule.
            </Need>
          </li>
        )}
        {secrets.map(({ id, name }) => (
          <li key={id} className={ROW}>
            <Need
              button={
                <Link to="/vault" className={buttonClass()}>
                  Replace secret
                </Link>
              }
            >
              A site returned the secret <code>{name}</code>, so it is disabled.
            </Need>
          </li>
        ))}
        {low !== null && (
          <li className={ROW}>
            <Need
              button={
                <Link to="/billing" search={{ top_up: true }} className={buttonClass()}>
                  Buy tokens
                </Link>
              }
            >
              The balance lasts for {daysInWords(low.days)}, {low.why}.
            </Need>
          </li>
        )}
      </ul>
    </Card>
  );
}

type LastRun = NonNullable<Agent["last_run"]>;

const ROW = "border-t border-line px-4 py-2.5";

/** The newest run, if it failed or had errors, or the run since which the schedule fails, also if a chat succeeded since. */
function failingRun(agent: Agent, erroneous: readonly FoundRun[]): LastRun | null {
  const { id, last_run, schedule_status, consecutive_failures } = agent;
  if (last_run?.status === "failed" || last_run?.has_errors === true) return last_run;
  if (schedule_status !== "active" || consecutive_failures === 0) return null;
  const isCounted = ({ trigger, status }: FoundRun) =>
    status === "failed" && (trigger === "schedule" || trigger === "manual");
  return erroneous.find((run) => run.agent.id === id && isCounted(run)) ?? null;
}
const isPaused = ({ schedule_status }: Agent) => schedule_status === "paused";

function useLowBalance(): Forecast | null {
  const { data: profile } = useSuspenseQuery(profileQuery);
  const { data: usage } = useQuery(usageQuery(LONGER_DAYS));
  const left = usage === undefined ? null : forecast(profile, usage);
  return left !== null && left.days < LOW_DAYS ? left : null;
}

function Need({ button, children }: { button: ReactNode; children: ReactNode }) {
  return (
    <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1.5">
      <div className="min-w-0 flex-1 basis-60 wrap-anywhere">{children}</div>
      {button}
    </div>
  );
}

function Failing({ agent: { id }, run, reason }: { agent: Agent; run: LastRun; reason: string | null | undefined }) {
  return (
    <Need
      button={
        <Link to="/agents/$id/runs/$run_id" params={{ id, run_id: run.id }} className={buttonClass()}>
          See what to do
        </Link>
      }
    >
      <Status status={run.status} has_errors={run.has_errors} />{" "}
      {run.finished_at !== null && <span className="text-sm text-muted">{ago(run.finished_at)}</span>}
      {reason != null && <span className="line-clamp-2">{inWords(reason)}</span>}
    </Need>
  );
}

/** A schedule that is paused, or whose failed run is not among the runs that were read. */
function OtherSchedule({ agent: { id } }: { agent: Agent }) {
  return (
    <Need
      button={
        <Link to="/agents/$id" params={{ id }} search={{ tab: "schedule" }} className={buttonClass()}>
          View schedules
        </Link>
      }
    >
      A schedule is paused, or failed and has not succeeded since.
    </Need>
  );
}

function Paused({ agent }: { agent: Agent }) {
  const resume = useMutation({
    mutationFn: () => call("POST /api/v1/agents/{id}/resume", { params: { id: agent.id } }),
    onSuccess: async () => {
      await stale("agents");
      confirmSaved("Schedule resumed");
    },
  });
  return (
    <>
      <Need
        button={
          <Button
            icon="play"
            busy={resume.isPending}
            aria-label={`Resume schedule of ${agent.name}`}
            onClick={() => resume.mutate()}
          >
            Resume schedule
          </Button>
        }
      >
        The schedule is paused. Reason: {scheduleReason(agent.schedule_paused_reason ?? "")}.
      </Need>
      {resume.error !== null && <ProblemNotice error={resume.error} />}
    </>
  );
}
