import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Answer } from "../api/client.ts";
import { noticesQuery } from "../api/queries.ts";
import { EVENT_NAMES, EVENT_TEXTS, type Event, eventText, isEvent } from "../event-words.ts";
import { count, number, words } from "../format.ts";
import { DeliveryStatus } from "../parts/delivery-status.tsx";
import { usePlanName } from "../parts/plan-name.ts";
import { scheduleReason } from "../service-words.ts";
import { Card, Empty, PageHeader } from "../ui/basics.tsx";
import { type Column, PagedTable, When } from "../ui/list.tsx";
import { SelectField } from "../ui/select.tsx";

type Notice = Answer<"GET /api/v1/notices">["notices"][number];

/** The page where the person can act. `agent`: the agent or run that the notice names; `decision`: what that run asks. */
type Place = "agent" | "decision" | "secrets" | "keys" | "billing" | "overage" | "payments";

interface EventPlace {
  place: Place;
  /** The most useful detail of a notice, in one line. */
  detail(data: Notice["data"]): ReactNode;
}

const used = ({ percent }: Notice["data"]) => (typeof percent === "number" ? `${number(percent)} % used` : "");
const secret = ({ secret_name }: Notice["data"]) => String(secret_name);

function PlanName({ id }: { id: string }) {
  return usePlanName()(id);
}

const asked = ({ actions, actions_count }: Notice["data"]) => {
  const [first] = actions as { tool: string | null; reason: string }[];
  return first?.tool == null ? (first?.reason ?? "") : count(Number(actions_count), `call: ${first.tool}`, "calls");
};

const EVENTS: Record<Event, EventPlace> = {
  "balance.low": { place: "billing", detail: used },
  "overage.cap_near": { place: "overage", detail: used },
  "key_budget.near": { place: "keys", detail: used },
  "auto_topup.paused": {
    place: "payments",
    detail: ({ reason }) => words(String(reason)),
  },
  "run.failed": {
    place: "agent",
    detail: ({ error_message }) => scheduleReason(String(error_message)),
  },
  "run.has_errors": {
    place: "agent",
    detail: ({ tool, error_message }) => `${tool}: ${scheduleReason(String(error_message))}`,
  },
  "run.succeeded": { place: "agent", detail: () => "" },
  "run.requires_action": { place: "decision", detail: asked },
  "delivery.failed": { place: "agent", detail: ({ to }) => String(to) },
  "schedule.paused": {
    place: "agent",
    detail: ({ reason }) => scheduleReason(String(reason)),
  },
  "secret.reflected": { place: "secrets", detail: secret },
  "secret.disconnected": { place: "secrets", detail: secret },
  "subscription.renewed": { place: "billing", detail: ({ plan_id }) => <PlanName id={String(plan_id)} /> },
};

const PLACES: Record<Exclude<Place, "agent" | "decision">, ReactNode> = {
  secrets: (
    <Link to="/vault" className="link">
      Vault
    </Link>
  ),
  keys: (
    <Link to="/developers/keys" className="link">
      API keys
    </Link>
  ),
  billing: (
    <Link to="/billing" className="link">
      Billing
    </Link>
  ),
  payments: (
    <Link to="/billing" search={{ tab: "purchases" }} className="link">
      Billing
    </Link>
  ),
  overage: (
    <Link to="/billing" search={{ tab: "overage" }} className="link">
      Billing
    </Link>
  ),
};

/** A link to the page where the person can act. */
function NoticeLink({ notice }: { notice: Notice }) {
  // A newer service can have events that this page does not know.
  const place = isEvent(notice.event) ? EVENTS[notice.event].place : "billing";
  return place === "agent" || place === "decision" ? <AgentLink notice={notice} place={place} /> : PLACES[place];
}

interface AgentLinkProps {
  notice: Notice;
  place: "agent" | "decision";
}
function AgentLink({ notice: { data, agent_name, agent_deleted }, place }: AgentLinkProps) {
  const id = String(data.agent_id);
  const name = agent_name ?? "an agent";
  if (agent_deleted) return <span className="wrap-anywhere">{name} (deleted)</span>;
  return typeof data.run_id === "string" ? (
    <Link
      to={place === "agent" ? "/agents/$id/runs/$run_id" : "/agents/$id/runs/$run_id/decide"}
      params={{ id, run_id: data.run_id }}
      className="link wrap-anywhere"
    >
      {name}
    </Link>
  ) : (
    <Link to="/agents/$id" params={{ id }} search={{ tab: "schedule" }} className="link wrap-anywhere">
      {name}
    </Link>
  );
}

const NOTICES: Column<Notice>[] = [
  {
    title: "When",
    cell: ({ created_at }) => <When at={created_at} />,
  },
  {
    title: "Event",
    cell: (notice) => (
      <>
        <span className="font-medium">{eventText(notice.event)}</span> <span className="text-muted">·</span>{" "}
        <NoticeLink notice={notice} />
        <span className="block text-sm wrap-anywhere text-muted">
          {isEvent(notice.event) && EVENTS[notice.event].detail(notice.data)}
        </span>
      </>
    ),
  },
  {
    title: "Delivered",
    wide: true,
    cell: ({ deliveries }) =>
      deliveries.length === 0 ? (
        <span className="whitespace-nowrap text-muted">Not sent</span>
      ) : (
        <span className="flex flex-wrap gap-1">
          {deliveries.map((delivery) => (
            <DeliveryStatus key={delivery.endpoint_id} delivery={delivery} />
          ))}
        </span>
      ),
  },
];

/** Notices, and where they are sent. */
export function NoticesPage() {
  const { event } = useSearch({ from: "/signed-in/notices" });
  const navigate = useNavigate({ from: "/notices" });
  const wanted = isEvent(event) ? event : undefined;
  return (
    <>
      <PageHeader
        title="Notices"
        note={
          <>
            Events that may need your action.{" "}
            <Link to="/developers/webhooks" className="link">
              Where notices are sent
            </Link>
          </>
        }
      />
      <div className="space-y-4">
        <Card flush>
          <div className="border-b border-line px-4 py-3">
            <SelectField
              label="Event"
              className="w-full sm:w-64"
              value={wanted ?? ""}
              options={[["", "All"], ...EVENT_NAMES.map((event) => [event, EVENT_TEXTS[event]] as const)]}
              onValue={(chosen) => void navigate({ search: chosen === "" ? {} : { event: chosen }, replace: true })}
            />
          </div>
          <PagedTable
            label="Notices"
            query={noticesQuery(wanted === undefined ? {} : { event: wanted })}
            columns={NOTICES}
            keyOf={({ id }) => id}
            empty={
              <Empty icon="notices" title={wanted === undefined ? "No notices yet" : "No notices of this event"}>
                Failed runs, paused schedules and a low balance appear here.
              </Empty>
            }
          />
        </Card>
      </div>
    </>
  );
}
