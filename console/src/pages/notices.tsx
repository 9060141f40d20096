import { useMutation, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { type Answer, type Body, call } from "../api/client.ts";
import { endpointsQuery, noticesQuery, profileQuery, sessionQuery, stale } from "../api/queries.ts";
import { count, instant, number, words } from "../format.ts";
import { scheduleReason } from "../service-words.ts";
import { Badge, Button, Card, Empty, PageHeader } from "../ui/basics.tsx";
import { ShownOnce } from "../ui/copy.tsx";
import { Confirm, Dialog, DialogForm } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { SelectField } from "../ui/select.tsx";
import { WithTooltip } from "../ui/tooltip.tsx";

type Notice = Answer<"GET /api/v1/notices">["notices"][number];
type Endpoint = Answer<"GET /api/v1/webhook-endpoints">["webhook_endpoints"][number];
type Event = Body<"POST /api/v1/webhook-endpoints">["events"][number];

/** The page where the person can act. `agent`: the agent or run that the notice names; `decision`: what that run asks. */
type Place = "agent" | "decision" | "secrets" | "keys" | "billing" | "overage";

interface EventWords {
  text: string;
  place: Place;
  /** The most useful detail of a notice, in one line. */
  detail(data: Notice["data"]): string;
}

const used = ({ percent }: Notice["data"]) => (typeof percent === "number" ? `${number(percent)} % used` : "");
const secret = ({ secret_name }: Notice["data"]) => String(secret_name);

const asked = ({ actions, actions_count }: Notice["data"]) => {
  const [first] = actions as { tool: string | null; reason: string }[];
  return first?.tool == null ? (first?.reason ?? "") : count(Number(actions_count), `call: ${first.tool}`, "calls");
};

const EVENTS: Record<Event, EventWords> = {
  "balance.low": { text: "The balance is low", place: "billing", detail: used },
  "overage.cap_near": { text: "Overage nears its cap", place: "overage", detail: used },
  "key_budget.near": { text: "A key nears its budget", place: "keys", detail: used },
  "auto_topup.paused": {
    text: "Automatic top-ups were paused",
    place: "billing",
    detail: ({ reason }) => words(String(reason)),
  },
  "run.failed": {
    text: "A run failed",
    place: "agent",
    detail: ({ error_message }) => scheduleReason(String(error_message)),
  },
  "run.has_errors": {
    text: "A run succeeded with errors",
    place: "agent",
    detail: ({ tool, error_message }) => `${tool}: ${scheduleReason(String(error_message))}`,
  },
  "run.succeeded": { text: "A run succeeded", place: "agent", detail: () => "" },
  "run.requires_action": { text: "A run waits for your decision", place: "decision", detail: asked },
  "delivery.failed": { text: "A result was not delivered", place: "agent", detail: ({ to }) => String(to) },
  "schedule.paused": {
    text: "A schedule was paused",
    place: "agent",
    detail: ({ reason }) => scheduleReason(String(reason)),
  },
  "secret.reflected": { text: "A site returned a secret", place: "secrets", detail: secret },
  "secret.disconnected": { text: "A server refuses a sign-in", place: "secrets", detail: secret },
  "subscription.renewed": { text: "The plan was renewed", place: "billing", detail: ({ plan_id }) => String(plan_id) },
};

const EVENT_NAMES = Object.keys(EVENTS) as Event[];
const isEvent = (name: string | undefined): name is Event => name !== undefined && Object.hasOwn(EVENTS, name);

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
    cell: ({ created_at }) => <span className="block min-w-20 md:whitespace-nowrap">{instant(created_at)}</span>,
  },
  {
    title: "Event",
    cell: (notice) => (
      <>
        <span className="font-medium">{isEvent(notice.event) ? EVENTS[notice.event].text : notice.event}</span>{" "}
        <span className="text-muted">·</span> <NoticeLink notice={notice} />
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
        <span className="whitespace-nowrap text-muted">not sent</span>
      ) : (
        <span className="flex flex-wrap gap-1">
          {deliveries.map((delivery) => (
            <Badge
              key={delivery.endpoint_id}
              tone={({ delivered: "good", pending: "accent", failed: "bad" } as const)[delivery.status]}
            >
              {delivery.status}
              {delivery.last_status !== null && ` (${delivery.last_status})`}
            </Badge>
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
      <PageHeader title="Notices" note="Events that may need your action." />
      <div className="space-y-4">
        <Card flush>
          <div className="border-b border-line px-4 py-3">
            <SelectField
              label="Event"
              className="w-full sm:w-64"
              value={wanted ?? ""}
              options={[["", "All"], ...EVENT_NAMES.map((event) => [event, EVENTS[event].text] as const)]}
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
        <Endpoints />
      </div>
    </>
  );
}

function Endpoints() {
  const [creating, setCreating] = useState(false);
  const [deleted, setDeleted] = useState<Endpoint | null>(null);
  const endpoints: Column<Endpoint>[] = [
    { title: "Address", cell: ({ url }) => <code className="text-sm break-all">{addressOf(url)}</code> },
    { title: "Events", wide: true, cell: ({ events }) => events.map((event) => EVENTS[event].text).join(", ") },
    { title: "Status", cell: ({ status }) => <Badge tone={status === "enabled" ? "good" : "warn"}>{status}</Badge> },
    {
      title: "",
      numeric: true,
      cell: (endpoint) => (
        <WithTooltip text="Delete endpoint">
          <Button
            kind="quiet"
            icon="trash"
            className="px-2"
            aria-label={`Delete ${addressOf(endpoint.url)}`}
            onClick={() => setDeleted(endpoint)}
          />
        </WithTooltip>
      ),
    },
  ];
  const create = (
    <Button icon="plus" onClick={() => setCreating(true)}>
      New endpoint
    </Button>
  );
  return (
    <>
      <Card
        title="Endpoints"
        note="Where notices are sent: to your e-mail address, or to your programs, signed by Standard Webhooks"
        actions={create}
        flush
      >
        <PagedTable
          label="Endpoints"
          query={endpointsQuery}
          columns={endpoints}
          keyOf={({ id }) => id}
          empty={<p className="px-4 pb-5 text-muted">None. Notices appear only on this page.</p>}
        />
      </Card>
      {creating && <NewEndpoint onClose={() => setCreating(false)} />}
      {deleted !== null && (
        <Confirm
          title="Delete this endpoint?"
          action="Delete endpoint"
          saved="Endpoint deleted"
          onClose={() => setDeleted(null)}
          onConfirm={async () => {
            await call("DELETE /api/v1/webhook-endpoints/{id}", { params: { id: deleted.id } });
            await stale("endpoints", "notices");
          }}
        >
          {addressOf(deleted.url)} receives no more notices. Pending deliveries are cancelled.
        </Confirm>
      )}
    </>
  );
}

const MAIL = "mailto:";
const addressOf = (url: string) => (url.startsWith(MAIL) ? url.slice(MAIL.length) : url);

function NewEndpoint({ onClose }: { onClose: () => void }) {
  const { data: profile } = useSuspenseQuery(profileQuery);
  const sends_mail = useQuery(sessionQuery).data?.delivery === "mail";
  const [chosen, setChosen] = useState<"mail" | "webhook">("mail");
  const by_mail = sends_mail && chosen === "mail";
  const [url, setUrl] = useState("");
  const [events, setEvents] = useState<Event[]>([
    "run.requires_action",
    "run.failed",
    "run.has_errors",
    "schedule.paused",
    "balance.low",
  ]);
  const [secret, setSecret] = useState<string | null>(null);
  const save = useMutation({
    mutationFn: () =>
      call("POST /api/v1/webhook-endpoints", { body: { url: by_mail ? MAIL + profile.email : url, events } }),
    onSuccess: (created) => {
      setSecret(created.secret);
      if (created.secret === null) {
        confirmSaved("Notices are sent to your e-mail address");
        onClose();
      }
      return stale("endpoints");
    },
  });
  const toggle = (event: Event) =>
    setEvents(events.includes(event) ? events.filter((other) => other !== event) : [...events, event]);
  return (
    <Dialog title="New endpoint" onClose={onClose}>
      {secret !== null ? (
        <ShownOnce label="Signing secret" text={secret} onDone={onClose} />
      ) : (
        <DialogForm save={save} action="Create endpoint" onCancel={onClose} disabled={events.length === 0}>
          {sends_mail && (
            <SelectField
              label="Send to"
              {...(by_mail && { param: "url" })}
              value={chosen}
              options={[
                ["mail", `my e-mail address (${profile.email})`],
                ["webhook", "a program of mine (webhook)"],
              ]}
              onValue={setChosen}
            />
          )}
          {!by_mail && (
            <TextField
              label="Address"
              param="url"
              type="url"
              required
              value={url}
              onValue={setUrl}
              placeholder="https://example.com/hook"
            />
          )}
          <fieldset>
            <legend className="mb-1 font-medium">Events</legend>
            <div className="space-y-1.5">
              {EVENT_NAMES.map((event) => (
                <label key={event} className="flex items-center gap-2">
                  <input
                    type="checkbox"
                    className="size-4 accent-accent"
                    checked={events.includes(event)}
                    onChange={() => toggle(event)}
                  />
                  {EVENTS[event].text}
                </label>
              ))}
            </div>
          </fieldset>
        </DialogForm>
      )}
    </Dialog>
  );
}
