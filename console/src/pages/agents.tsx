import { Link } from "@tanstack/react-router";
import { type Agent, agentsQuery } from "../api/queries.ts";
import { ago } from "../format.ts";
import { scheduleInWords } from "../schedule-words.ts";
import { Badge, buttonClass, Card, Empty, PageHeader, Status } from "../ui/basics.tsx";
import { Icon } from "../ui/icons.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { WithTooltip } from "../ui/tooltip.tsx";

const COLUMNS: Column<Agent>[] = [
  {
    title: "Agent",
    cell: (agent) => (
      <>
        <Link to="/agents/$id" params={{ id: agent.id }} className="font-medium wrap-anywhere hover:underline">
          {agent.name}
        </Link>{" "}
        {!agent.is_active && <Badge>disabled</Badge>}
        {agent.description !== null && (
          <p dir="auto" className="line-clamp-1 max-w-md text-sm wrap-anywhere text-muted">
            {agent.description}
          </p>
        )}
      </>
    ),
  },
  {
    title: "Model",
    wide: true,
    cell: (agent) => (agent.auto_route ? <span className="text-muted">chosen for each run</span> : agent.model_id),
  },
  {
    title: "Schedule",
    wide: true,
    cell: (agent) =>
      agent.schedule_enabled ? (
        <>
          {scheduleInWords(agent)}
          <p className="text-sm text-muted">
            {agent.schedule_status === "paused" ? (
              <Badge tone="warn">paused</Badge>
            ) : agent.next_run_at === null ? (
              "off"
            ) : (
              `next ${ago(agent.next_run_at)}`
            )}
          </p>
        </>
      ) : (
        <span className="text-muted">on demand</span>
      ),
  },
  {
    title: "Last run",
    cell: (agent) =>
      agent.last_run === null ? (
        <span className="text-muted">never</span>
      ) : (
        <Link to="/agents/$id/runs/$run_id" params={{ id: agent.id, run_id: agent.last_run.id }}>
          <Status status={agent.last_run.status} />
          {agent.last_run.finished_at !== null && (
            <span className="block text-sm whitespace-nowrap text-muted">{ago(agent.last_run.finished_at)}</span>
          )}
        </Link>
      ),
  },
  {
    title: "",
    numeric: true,
    cell: (agent) => (
      <WithTooltip text="Chat">
        <Link
          to="/agents/$id/chat"
          params={{ id: agent.id }}
          className={buttonClass("quiet", "px-2")}
          aria-label={`Chat with ${agent.name}`}
        >
          <Icon name="chat" />
        </Link>
      </WithTooltip>
    ),
  },
];

export function AgentsPage() {
  const create = (
    <Link to="/agents/new" className={buttonClass("primary")}>
      <Icon name="plus" /> New agent
    </Link>
  );
  return (
    <>
      <PageHeader title="Agents" note="An agent does a recurring task: on demand, in a chat or by a schedule.">
        {create}
      </PageHeader>
      <Card flush>
        <PagedTable
          label="Agents"
          query={agentsQuery}
          columns={COLUMNS}
          keyOf={(agent) => agent.id}
          empty={
            <Empty icon="agents" title="No agents yet" action={create}>
              Name an agent, describe its task and try it in a chat. You can add a schedule later.
            </Empty>
          }
        />
      </Card>
    </>
  );
}
