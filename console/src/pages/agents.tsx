import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { type Agent, agentsQuery } from "../api/queries.ts";
import { useFilterSetter } from "../filters.ts";
import { ago } from "../format.ts";
import { defaultScheduleInWords } from "../schedule-words.ts";
import { Badge, buttonClass, Card, Empty, PageHeader, Status } from "../ui/basics.tsx";
import { Icon } from "../ui/icons.tsx";
import { type Column, PagedTable, useFirstPage } from "../ui/list.tsx";
import { WithTooltip } from "../ui/tooltip.tsx";
import { WaitingField } from "../ui/waiting-field.tsx";

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
    cell: (agent) => (agent.auto_route ? <span className="text-muted">Chosen for each run</span> : agent.model_id),
  },
  {
    title: "Schedule",
    wide: true,
    cell: (agent) =>
      agent.schedule_status === "off" && agent.next_run_at === null ? (
        <span className="text-muted">On demand</span>
      ) : (
        <>
          {defaultScheduleInWords(agent) ?? "By its schedules"}
          <p className="text-sm text-muted">
            {agent.schedule_status === "paused" ? (
              <Badge tone="warn">paused</Badge>
            ) : agent.next_run_at === null ? (
              "No further run"
            ) : (
              `next ${ago(agent.next_run_at)}`
            )}
          </p>
        </>
      ),
  },
  {
    title: "Last run",
    cell: (agent) =>
      agent.last_run === null ? (
        <span className="text-muted">Never</span>
      ) : (
        <Link to="/agents/$id/runs/$run_id" params={{ id: agent.id, run_id: agent.last_run.id }}>
          <Status status={agent.last_run.status} has_errors={agent.last_run.has_errors} />
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

/** With more agents than this, the page has a search. */
const FEW_AGENTS = 10;

export function AgentsPage() {
  const { name = "" } = useSearch({ from: "/signed-in/agents" });
  const set = useFilterSetter();
  const [was_searched] = useState(name !== "");
  const { rows = [] } = useFirstPage(agentsQuery(name));
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
        {(was_searched || name !== "" || rows.length > FEW_AGENTS) && (
          <div className="border-b border-line px-4 py-3">
            <WaitingField
              label="Find agents by name"
              type="search"
              placeholder="A part of the name"
              value={name}
              onValue={set("name")}
            />
          </div>
        )}
        <PagedTable
          label="Agents"
          query={agentsQuery(name)}
          columns={COLUMNS}
          keyOf={(agent) => agent.id}
          empty={
            name === "" ? (
              <Empty icon="agents" title="No agents yet" action={create}>
                Name an agent, describe its task and try it in a chat. You can add a schedule later.
              </Empty>
            ) : (
              <Empty icon="agents" title="No agents match this name">
                Search by a part of the name.
              </Empty>
            )
          }
        />
      </Card>
    </>
  );
}
