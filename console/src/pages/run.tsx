import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode, useEffect, useState } from "react";
import { useLiveRun } from "../api/live-run.ts";
import {
  agentQuery,
  type Run,
  type RunDetail,
  runPromptQuery,
  runQuery,
  type Schedule,
  schedulesQuery,
} from "../api/queries.ts";
import { ago, count, dollars, duration, instant, number, words } from "../format.ts";
import { DecideProblem, RequiredActions, useDecide } from "../parts/approvals.tsx";
import { ExplainRun } from "../parts/explain.tsx";
import { useRunActions } from "../parts/run-actions.tsx";
import { ownMetadata, RunComparison, repeatsFact } from "../parts/run-comparison.tsx";
import { RunTimeline } from "../parts/run-timeline.tsx";
import { Outcome, Steps } from "../parts/run-view.tsx";
import { Removed } from "../parts/step.tsx";
import { versionLink } from "../parts/versions.tsx";
import { hasEnded, startInWords } from "../run-words.ts";
import { scheduleInWords } from "../schedule-words.ts";
import { routingReason } from "../service-words.ts";
import { Badge, Callout, Card, Facts, PageHeader, Status, type Tone } from "../ui/basics.tsx";
import { Icon } from "../ui/icons.tsx";
import { Json } from "../ui/json.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

/** One run. The page follows it until it ends. */
export function RunPage() {
  const { id, run_id } = useParams({ from: "/signed-in/agents/$id/runs/$run_id" });
  const { why, step } = useSearch({ from: "/signed-in/agents/$id/runs/$run_id" });
  const { data: agent } = useSuspenseQuery(agentQuery(id));
  const { data: run } = useSuspenseQuery(runQuery(id, run_id));
  const ended = hasEnded(run.status);
  const { preview, cut_off } = useLiveRun(id, run_id, ended);
  const navigate = useNavigate();
  const decide = useDecide();
  const openNext = (next: Run) => void navigate({ to: "/agents/$id/runs/$run_id", params: { id, run_id: next.id } });
  const { buttons, problem } = useRunActions({ run, disabled: !agent.is_active, onNext: openNext });
  return (
    <>
      <Breadcrumb id={id} name={agent.name} />
      <PageHeader title={`Run of ${agent.name}`} note={<State run={run} />}>
        {buttons}
      </PageHeader>
      <div className="mb-4 space-y-3 empty:hidden">
        {problem}
        {cut_off && (
          <Callout tone="warn" icon="warning">
            The service cannot be reached, so this page may be out of date. It reconnects automatically.
          </Callout>
        )}
      </div>
      <section aria-label="What the run asks" className="mb-4 space-y-4 empty:hidden">
        <DecideProblem decide={decide} />
        {run.required_actions.length > 0 && <RequiredActions run={run} decide={decide} />}
      </section>
      <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_20rem]">
        <div className="min-w-0 space-y-4">
          <Outcome run={run} preview={preview} />
          <RunComparison run={run} />
          <RunTimeline run={run} />
          {run.deliveries.length > 0 && <Deliveries deliveries={run.deliveries} />}
          {run.input !== null && (
            <Card title="Input">
              <Json label="Input of the run" value={run.input} />
              <Removed safety={run.input_safety} source="The delivery" />
            </Card>
          )}
          {ownMetadata(run).length > 0 && (
            <Card title="Metadata">
              <Facts facts={ownMetadata(run)} />
            </Card>
          )}
          <Prompt id={id} run_id={run_id} />
          <Steps run={run} selected={step} />
        </div>
        <Figures run={run} agent_id={id} />
      </div>
      {why !== undefined && (
        <ExplainRun
          run_id={run_id}
          steps={run.steps}
          index={why === "all" ? null : why}
          onClose={() =>
            void navigate({ to: ".", search: step === undefined ? {} : { step }, replace: true, resetScroll: false })
          }
        />
      )}
    </>
  );
}

function Breadcrumb({ id, name }: { id: string; name: string }) {
  return (
    <nav aria-label="Breadcrumb" className="mb-1 text-sm text-muted">
      <Link to="/agents/$id" params={{ id }} className="hover:underline">
        ← {name}
      </Link>
    </nav>
  );
}

function costInWords({ status, usage }: RunDetail): string {
  return `${count(usage.cost_tokens, "token")}${hasEnded(status) ? "" : " so far"}`;
}

function State({ run }: { run: RunDetail }) {
  return (
    <span className="flex flex-wrap items-center gap-x-2" aria-live="polite">
      <Status status={run.status} has_errors={run.has_errors} />
      <span>
        {instant(run.queued_at)}, {startInWords(run)} · {costInWords(run)}
      </span>
    </span>
  );
}

type ResultDelivery = RunDetail["deliveries"][number];
const DELIVERY_STATES: Record<ResultDelivery["status"], { name: string; tone: Tone }> = {
  pending: { name: "waiting", tone: "accent" },
  delivered: { name: "delivered", tone: "good" },
  failed: { name: "failed", tone: "bad" },
  skipped: { name: "skipped", tone: "neutral" },
};

/** What became of a delivery, in words. */
function deliveryInWords({ status, delivered_at, next_attempt_at, last_status, last_error, attempts }: ResultDelivery) {
  if (status === "skipped") return "The result is the one that this address got last.";
  if (delivered_at !== null) return instant(delivered_at);
  const reason =
    last_error === null ? (last_status === null ? "" : `, status ${last_status}`) : `, ${words(last_error)}`;
  const tries = attempts === 0 ? "" : `${count(attempts, "attempt")}${reason}`;
  if (next_attempt_at === null || status === "failed") return tries;
  return `${tries === "" ? "" : `${tries} · `}next at ${instant(next_attempt_at)}`;
}

/** Where the result was sent. */
function Deliveries({ deliveries }: { deliveries: ResultDelivery[] }) {
  return (
    <Card title="Deliveries of the result">
      <ul className="space-y-2">
        {deliveries.map((delivery) => (
          <li key={delivery.id} className="flex flex-wrap items-baseline gap-x-3 gap-y-0.5">
            <span className="wrap-anywhere">{delivery.to.replace(/^mailto:/, "")}</span>
            <Badge tone={DELIVERY_STATES[delivery.status].tone}>{DELIVERY_STATES[delivery.status].name}</Badge>
            <span className="text-sm text-muted">{deliveryInWords(delivery)}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

const SPEAKERS: Record<string, string> = { system: "Instructions", user: "Message", assistant: "Earlier answer" };

/** What the model was sent first. */
function Prompt({ id, run_id }: { id: string; run_id: string }) {
  const { data: messages, error, refetch } = useQuery(runPromptQuery(id, run_id));
  if (error !== null) return <ProblemNotice error={error} onRetry={() => void refetch()} />;
  if (messages === undefined || messages.length === 0) return null;
  return (
    <Card title="Sent to the model">
      <dl className="space-y-3">
        {messages.map(({ role, content }, nth) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the messages of a run do not change
          <div key={nth}>
            <dt className="text-sm text-muted">{SPEAKERS[role] ?? role}</dt>
            <dd
              dir="auto"
              // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls long texts
              tabIndex={0}
              className="max-h-48 overflow-auto wrap-anywhere whitespace-pre-wrap"
            >
              {content ?? "—"}
            </dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

function dueFact({ scheduled_for, started_at }: RunDetail): [string, string][] {
  if (scheduled_for === null) return [];
  const late = started_at !== null && Date.parse(started_at) - Date.parse(scheduled_for) >= 60_000;
  return [["Due", `${instant(scheduled_for)}${late ? `, started ${duration(scheduled_for, started_at)} late` : ""}`]];
}

/** The schedule that the run belongs to, by its name and in words. */
function scheduleFact({ schedule_id, agent_id }: RunDetail, schedules: Schedule[] | undefined): [string, ReactNode] {
  const schedule = schedules?.find(({ id }) => id === schedule_id);
  if (schedule === undefined) return ["Schedule", schedules === undefined ? "…" : "deleted since"];
  return [
    "Schedule",
    <Link key="schedule" to="/agents/$id" params={{ id: agent_id }} search={{ tab: "schedule" }} className="link">
      {schedule.name}: {scheduleInWords(schedule)}
    </Link>,
  ];
}

/** The duration of a run, updated each second until it ends. */
function Duration({ from, to }: { from: string; to: string | null }) {
  const [now, setNow] = useState(() => new Date().toISOString());
  useEffect(() => {
    if (to !== null) return;
    const timer = setInterval(() => setNow(new Date().toISOString()), 1000);
    return () => clearInterval(timer);
  }, [to]);
  return to === null ? `${duration(from, now, "s")} so far` : duration(from, to);
}

interface Routing {
  candidates: string[];
  chosen: string;
  reason: string;
  fallbacks: { model: string; reason: string }[];
}

/** The reason for the choice of the model. */
function WhyThisModel({ routing: { candidates, chosen, reason, fallbacks } }: { routing: Routing }) {
  const others = candidates.filter((model) => model !== chosen);
  return (
    <div className="mt-4 border-t border-line pt-3">
      <h3 className="font-medium">Why {chosen}</h3>
      <p className="text-sm text-pretty wrap-anywhere text-muted">{routingReason(reason)}</p>
      {fallbacks.map(({ model, reason: why }) => (
        <p key={model} className="text-sm text-warn">
          {model} failed before: {why}
        </p>
      ))}
      {others.length > 0 && <p className="text-sm text-muted">Other candidates: {others.join(", ")}</p>}
    </div>
  );
}

function Figures({ run, agent_id }: { run: RunDetail; agent_id: string }) {
  const { usage } = run;
  const { data: schedules } = useQuery({ ...schedulesQuery(agent_id), enabled: run.schedule_id !== null });
  const routing = run.routing as Routing | null;
  return (
    <Card title="Cost and time" className="lg:sticky lg:top-6">
      <Facts
        facts={[
          [
            "Billed",
            <span key="cost">
              <strong>{costInWords(run)}</strong>
              {usage.cost_tokens > 0 && (
                <>
                  , worth {dollars(usage.cost_tokens)} ·{" "}
                  <Link
                    from="/agents/$id/runs/$run_id"
                    to="."
                    search={(old) => ({ ...old, why: "all" })}
                    resetScroll={false}
                    className="link"
                    aria-label="Explain the cost of the run"
                  >
                    explain
                  </Link>
                </>
              )}
            </span>,
          ],
          ["Tokens", `${number(usage.input_tokens)} in, ${number(usage.output_tokens)} out`],
          ["Model", run.model_id ?? "—"],
          [
            "Duration",
            run.started_at === null ? "—" : <Duration key="duration" from={run.started_at} to={run.finished_at} />,
          ],
          ...repeatsFact(run),
          ...dueFact(run),
          ...(run.finished_at === null ? [] : [["Ended", ago(run.finished_at)] as [string, string]]),
          ...(run.schedule_id === null ? [] : [scheduleFact(run, schedules)]),
          [
            "Version",
            <span key="version">
              <Link {...versionLink(agent_id, run.agent_version)} className="link">
                {number(run.agent_version)}, what it changed
              </Link>
              {run.trigger === "test" && ", with changes that were not saved"}
            </span>,
          ],
          ...(run.attempt > 1 ? [["Attempt", `${number(run.attempt)}, after a lost worker`] as [string, string]] : []),
        ]}
      />
      {routing !== null && <WhyThisModel routing={routing} />}
      <Link
        to="/billing"
        search={{ tab: "ledger", run_id: run.id, agent_id }}
        className="link mt-4 inline-flex items-center gap-1.5"
      >
        View charges <Icon name="arrow" className="size-3.5" />
      </Link>
    </Card>
  );
}
