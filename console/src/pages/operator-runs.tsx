import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { type Answer, call } from "../api/client.ts";
import { listFrom, MOST } from "../api/queries.ts";
import { chosenFilters, useFilterSetter } from "../filters.ts";
import { count, dollars, instant, number, period, words } from "../format.ts";
import { RunStatus, UserLink, UserPicker, WAITS } from "../parts/operator-panels.tsx";
import { COST_COLUMN, DURATION_COLUMN, MODEL_COLUMN, QUEUED_COLUMN, timeTaken } from "../parts/run-columns.tsx";
import { StepList } from "../parts/step-list.tsx";
import { FAILURE_CODES, failure, STATUS_OPTIONS, startInWords, statusQuery, TRIGGER_OPTIONS } from "../run-words.ts";
import { inWords } from "../service-words.ts";
import { Button, Card, Empty, Facts, PageHeader } from "../ui/basics.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { DayField } from "../ui/fields.tsx";
import { type Column, Table } from "../ui/list.tsx";
import { Unloaded } from "../ui/problem.tsx";
import { SelectField } from "../ui/select.tsx";
import { rowLink, VirtualList } from "../ui/virtual-list.tsx";
import { useMinWidth, type VirtualColumn } from "../ui/virtual-table.tsx";

type Run = Answer<"GET /api/v1/admin/runs">["runs"][number];
type RunDetail = Answer<"GET /api/v1/admin/runs/{run_id}">;
type Failures = Answer<"GET /api/v1/admin/run-failures">["failures"][number];

/** Groups of failures that the page shows. */
const GROUPS = 10;
const OPTIONS = STATUS_OPTIONS.map(([status, name]) => [status, status === "requires_action" ? WAITS : name] as const);
const CODE_OPTIONS = [["", "All"], ...FAILURE_CODES.map((code) => [code, words(failure(code))] as const)] as const;

const STARTED_OPTIONS = TRIGGER_OPTIONS.map(([value, name]) => [value, value === "manual" ? "User" : name] as const);

const agentName = ({ agent_name, agent_deleted }: Pick<Run, "agent_name" | "agent_deleted">) =>
  `${agent_name ?? "Agent"}${agent_deleted ? " (deleted)" : ""}`;
const reasonOf = ({ error, failed_steps }: Run) => {
  if (error !== null) return words(failure(error.code));
  return failed_steps === 0 ? "" : count(failed_steps, "failed step");
};

/** Opens the run. The whole row is its link. */
function RunLink({ run, className = "" }: { run: Run; className?: string }) {
  return (
    <Link from="/operator/runs" to="." search={(old) => ({ ...old, run: run.id })} {...rowLink(className)}>
      {agentName(run)}
      <span className="sr-only">
        , run of {run.user_email ?? "an erased user"}, {instant(run.queued_at)}
      </span>
    </Link>
  );
}

const Reason = ({ run }: { run: Run }) => (
  <span className={`block truncate ${run.error === null ? "text-muted" : "text-bad"}`}>{reasonOf(run)}</span>
);

const COLUMNS: VirtualColumn<Run>[] = [
  {
    id: "status",
    title: "Status",
    width: "11rem",
    cell: (run) => <RunStatus status={run.status} has_errors={run.has_errors} />,
  },
  {
    id: "user",
    title: "User",
    width: "minmax(6rem,1fr)",
    cell: ({ user_email }) => <span className="block truncate">{user_email ?? "erased user"}</span>,
  },
  { id: "agent", title: "Agent", width: "minmax(6rem,0.8fr)", cell: (run) => <RunLink run={run} /> },
  { id: "reason", title: "Error", width: "minmax(8rem,1.4fr)", cell: (run) => <Reason run={run} /> },
  MODEL_COLUMN,
  DURATION_COLUMN,
  COST_COLUMN,
  QUEUED_COLUMN,
  {
    id: "phone",
    title: "Run",
    width: "minmax(0,1fr)",
    cell: (run) => (
      <>
        <span className="flex items-baseline justify-between gap-3">
          <RunLink run={run} className="min-w-0" />
          <span className="shrink-0 text-sm text-muted">{instant(run.queued_at)}</span>
        </span>
        <span className="block truncate">{run.user_email ?? "erased user"}</span>
        <span className="flex items-center justify-between gap-3">
          <RunStatus status={run.status} has_errors={run.has_errors} />
          <Reason run={run} />
        </span>
      </>
    ),
  },
];
const HIDDEN = {
  phone: {
    status: false,
    user: false,
    agent: false,
    reason: false,
    model: false,
    duration: false,
    cost: false,
    when: false,
  },
  wide: { phone: false },
};
const keyOf = ({ id }: Run) => id;

/** The runs of all users: whose runs fail, why, and each run's figures. */
export function OperatorRunsPage() {
  const search = useSearch({ from: "/signed-in/operator/runs" });
  const { status, trigger, user_id, agent_id, error_code, from, to, run: open } = search;
  const set = useFilterSetter();
  const time = period(from, to);
  const filters = chosenFilters({ ...statusQuery(status), trigger, user_id, agent_id, error_code, ...time });
  const loaded = useInfiniteQuery({
    ...listFrom(["operator", "runs", filters], "GET /api/v1/admin/runs", "runs", { query: filters, limit: MOST }),
    refetchOnWindowFocus: false,
  });
  const rows = loaded.data?.pages.flatMap((page) => page.rows) ?? [];
  const is_phone = !useMinWidth("(min-width: 48rem)");
  return (
    <div data-wide>
      <PageHeader title="Runs" note="The runs of all users, newest first." />
      <div className="space-y-4">
        {error_code === undefined && agent_id === undefined && <FailureGroups user_id={user_id} time={time} />}
        <Card flush>
          <div className="grid grid-cols-2 items-end gap-3 border-b border-line px-4 py-3 sm:flex sm:flex-wrap">
            <SelectField
              label="Status"
              className="w-full sm:w-36"
              value={status ?? ""}
              options={OPTIONS}
              onValue={set("status")}
            />
            <UserPicker className="w-full sm:w-48" value={user_id ?? ""} onValue={set("user_id")} />
            <SelectField
              label="Error"
              className="w-full sm:w-56"
              value={error_code ?? ""}
              options={CODE_OPTIONS}
              onValue={set("error_code")}
            />
            <SelectField
              label="Started by"
              className="w-full sm:w-32"
              value={trigger ?? ""}
              options={STARTED_OPTIONS}
              onValue={set("trigger")}
            />
            <DayField label="From" value={from ?? ""} onValue={set("from")} />
            <DayField label="To" value={to ?? ""} onValue={set("to")} />
            {agent_id !== undefined && (
              <Button icon="close" onClick={() => set("agent_id")("")}>
                Show all agents
              </Button>
            )}
          </div>
          <VirtualList
            loaded={loaded}
            label="Runs"
            columns={COLUMNS}
            hidden={is_phone ? HIDDEN.phone : HIDDEN.wide}
            rows={rows}
            keyOf={keyOf}
            row_rem={is_phone ? 6 : 2.75}
            current={open}
            empty={
              <Empty
                icon="play"
                title={Object.keys(filters).length > 0 ? "No runs match these filters" : "No runs yet"}
              >
                Each run of an agent is listed here.
              </Empty>
            }
          />
        </Card>
      </div>
      {open !== undefined && <OneRun id={open} onClose={() => set("run")("")} />}
    </div>
  );
}

/** Whose runs fail, and why: the failed runs by user, agent and error. */
function FailureGroups({ user_id, time }: { user_id: string | undefined; time: ReturnType<typeof period> }) {
  const filters = chosenFilters({ user_id, ...time });
  const { data, error, refetch } = useQuery({
    queryKey: ["operator", "run-failures", filters],
    queryFn: ({ signal }) => call("GET /api/v1/admin/run-failures", { query: filters, signal }),
  });
  const columns: Column<Failures>[] = [
    { title: "User", cell: ({ user_id: id, user_email }) => <UserLink id={id} email={user_email} /> },
    { title: "Agent", cell: (group) => <span className="wrap-anywhere">{agentName(group)}</span> },
    {
      title: "Why",
      cell: ({ user_id: user, agent_id, error_code, last_message }) => (
        <>
          <Link
            from="/operator/runs"
            to="."
            search={(old) => ({ ...old, user_id: user, agent_id, error_code })}
            className="link font-medium"
          >
            {words(failure(error_code))}
          </Link>
          <span className="block text-sm wrap-anywhere text-muted max-md:hidden">{inWords(last_message)}</span>
        </>
      ),
    },
    { title: "Runs", numeric: true, cell: ({ runs }) => number(runs) },
    { title: "Last", wide: true, numeric: true, cell: ({ last_at }) => instant(last_at) },
  ];
  return (
    <Card
      title="Whose runs fail, and why"
      note={time.from === undefined ? "The failed runs of the last 7 days." : "The failed runs of the chosen days."}
      flush
    >
      {data === undefined ? (
        <Unloaded error={error} refetch={refetch} />
      ) : data.failures.length === 0 ? (
        <p className="px-4 pb-5 text-muted">No run has failed.</p>
      ) : (
        <Table
          label="Whose runs fail, and why"
          columns={columns}
          rows={data.failures.slice(0, GROUPS)}
          keyOf={(group) => `${group.agent_id} ${group.error_code}`}
        />
      )}
    </Card>
  );
}

/** One run's figures and errors. What it read and wrote is for its user. */
function OneRun({ id, onClose }: { id: string; onClose: () => void }) {
  const { data, error, refetch } = useQuery({
    queryKey: ["operator", "run", id],
    queryFn: ({ signal }) => call("GET /api/v1/admin/runs/{run_id}", { params: { run_id: id }, signal }),
  });
  return (
    <Dialog title={data === undefined ? "Run" : `Run of ${agentName(data)}`} onClose={onClose} wide>
      {data === undefined ? <Unloaded error={error} refetch={refetch} /> : <RunFigures run={data} />}
    </Dialog>
  );
}

function RunFigures({ run }: { run: RunDetail }) {
  const { usage } = run;
  return (
    <div className="space-y-4">
      <Facts
        facts={[
          ["User", <UserLink key="user" id={run.user_id} email={run.user_email} />],
          ["Status", <RunStatus key="status" status={run.status} has_errors={run.has_errors} />],
          [
            "Queued",
            `${instant(run.queued_at)}, ${run.trigger === "manual" ? "started by the user" : startInWords(run)}`,
          ],
          ["Model", run.model_id ?? "—"],
          ["Duration", timeTaken(run)],
          ["Cost", `${dollars(usage.cost_tokens)} (${number(usage.cost_tokens)} tokens)`],
          ["Tokens in and out", `${number(usage.input_tokens)} and ${number(usage.output_tokens)}`],
          ["Version", number(run.agent_version)],
          ["Run id", <code key="id">{run.id}</code>],
        ]}
      />
      {run.error !== null && (
        <div className="rounded-lg bg-bad-soft px-3 py-2.5">
          <h3 className="font-medium text-bad">
            Run {run.status === "cancelled" ? "cancelled" : "failed"}: {failure(run.error.code)}
          </h3>
          <p className="mt-1 wrap-anywhere">{inWords(run.error.message)}</p>
        </div>
      )}
      <section>
        <h3 className="mb-1 font-semibold">Steps</h3>
        {run.steps.length === 0 && <p className="text-muted">None yet.</p>}
        <StepList steps={run.steps} with_errors />
      </section>
      <p className="text-sm text-muted">
        Operators see figures and errors. The run's instructions, input and output are for its user.
      </p>
    </div>
  );
}
