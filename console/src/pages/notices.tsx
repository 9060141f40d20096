import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { type Answer, type Body, call } from "../api/client.ts";
import { agentNamesQuery, endpointsQuery, noticesQuery, stale } from "../api/queries.ts";
import { instant, number } from "../format.ts";
import { useAct } from "../ui/act.ts";
import { Badge, Button, Card, Empty, PageHeader } from "../ui/basics.tsx";
import { ShownOnce } from "../ui/copy.tsx";
import { Confirm, Dialog, FormEnd } from "../ui/dialog.tsx";
import { FormErrorProvider, SelectField, TextField } from "../ui/fields.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";

type Notice = Answer<"GET /api/v1/notices">["notices"][number];
type Endpoint = Answer<"GET /api/v1/webhook-endpoints">["webhook_endpoints"][number];
type Event = Body<"POST /api/v1/webhook-endpoints">["events"][number];

const EVENTS: Record<Event, string> = {
  "balance.low": "The balance is low",
  "overage.cap_near": "Overage nears its cap",
  "key_budget.near": "A key nears its budget",
  "run.failed": "A run failed",
  "schedule.paused": "A schedule was paused",
  "secret.reflected": "A site sent a secret back",
  "subscription.renewed": "The plan was renewed",
};

const isEvent = (name: string | undefined): name is Event => name !== undefined && name in EVENTS;

/** The part of a notice that tells most in a line. */
function detail({ data }: Notice): string {
  const told = data.error_message ?? data.reason ?? data.plan_id;
  if (told !== undefined) return String(told);
  return typeof data.percent === "number" ? `${number(data.percent)} % used` : "";
}

/** Where one can act on it. */
function Where({ notice: { event, data } }: { notice: Notice }) {
  const { data: agents } = useQuery(agentNamesQuery);
  if (typeof data.agent_id === "string") {
    const id = data.agent_id;
    const name = agents?.find((agent) => agent.id === id)?.name;
    if (agents !== undefined && name === undefined) return <>an agent that is deleted</>;
    return typeof data.run_id === "string" ? (
      <Link to="/agents/$id/runs/$run_id" params={{ id, run_id: data.run_id }} className="link">
        {name ?? "The run"}
      </Link>
    ) : (
      <Link to="/agents/$id" params={{ id }} search={{ tab: "schedule" }} className="link">
        {name ?? "The agent"}
      </Link>
    );
  }
  if (event.startsWith("secret."))
    return (
      <Link to="/secrets" className="link">
        Secrets
      </Link>
    );
  if (event.startsWith("key_budget."))
    return (
      <Link to="/keys" className="link">
        API keys
      </Link>
    );
  return (
    <Link to="/billing" search={event.startsWith("overage.") ? { tab: "overage" } : {}} className="link">
      Usage and billing
    </Link>
  );
}

const NOTICES: Column<Notice>[] = [
  { title: "When", cell: ({ created_at }) => <span className="md:whitespace-nowrap">{instant(created_at)}</span> },
  {
    title: "What",
    cell: (notice) => (
      <>
        <span className="font-medium">{EVENTS[notice.event]}</span> <span className="text-muted">·</span>{" "}
        <Where notice={notice} />
        <span className="block text-sm break-words text-muted">{detail(notice)}</span>
      </>
    ),
  },
  {
    title: "Delivered",
    wide: true,
    cell: ({ deliveries }) =>
      deliveries.length === 0 ? (
        <span className="whitespace-nowrap text-muted">here only</span>
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

/** What you were told of, and the programs that are told too. */
export function NoticesPage() {
  const { event } = useSearch({ from: "/house/notices" });
  const navigate = useNavigate({ from: "/notices" });
  const wanted = isEvent(event) ? event : undefined;
  const [making, setMaking] = useState(false);
  const [ending, setEnding] = useState<Endpoint | null>(null);
  const endpoints: Column<Endpoint>[] = [
    { title: "Address", cell: ({ url }) => <code className="text-sm break-all">{url}</code> },
    { title: "Told of", wide: true, cell: ({ events }) => events.map((event) => EVENTS[event]).join(", ") },
    { title: "State", cell: ({ status }) => <Badge tone={status === "enabled" ? "good" : "warn"}>{status}</Badge> },
    {
      title: "",
      numeric: true,
      cell: (endpoint) => (
        <Button
          kind="quiet"
          icon="trash"
          className="px-2"
          aria-label={`Delete ${endpoint.url}`}
          onClick={() => setEnding(endpoint)}
        />
      ),
    },
  ];
  const make = (
    <Button icon="plus" onClick={() => setMaking(true)}>
      New endpoint
    </Button>
  );
  return (
    <>
      <PageHeader title="Notices" note="What happened that you may want to act on." />
      <div className="space-y-4">
        <Card flush>
          <div className="border-b border-line px-4 py-3">
            <SelectField
              label="About"
              className="w-full sm:w-64"
              value={wanted ?? ""}
              options={[["", "everything"], ...Object.entries(EVENTS)]}
              onValue={(chosen) => void navigate({ search: chosen === "" ? {} : { event: chosen }, replace: true })}
            />
          </div>
          <PagedTable
            label="Notices"
            query={noticesQuery(wanted === undefined ? {} : { event: wanted })}
            columns={NOTICES}
            keyOf={({ id }) => id}
            empty={
              <Empty icon="notices" title={wanted === undefined ? "Nothing to report" : "Nothing of that kind"}>
                Failed runs, paused schedules, a low balance: you will read of them here.
              </Empty>
            }
          />
        </Card>
        <Card
          title="Webhook endpoints"
          note="Programs that are told as well, signed by Standard Webhooks"
          actions={make}
          flush
        >
          <PagedTable
            label="Webhook endpoints"
            query={endpointsQuery}
            columns={endpoints}
            keyOf={({ id }) => id}
            empty={<p className="px-4 pb-5 text-muted">None. Notices stand here only.</p>}
          />
        </Card>
      </div>
      {making && <NewEndpoint onClose={() => setMaking(false)} />}
      {ending !== null && (
        <Confirm
          title="Delete this endpoint?"
          act="Delete the endpoint"
          onClose={() => setEnding(null)}
          onAct={async () => {
            await call("DELETE /api/v1/webhook-endpoints/{id}", { params: { id: ending.id } });
            await stale("endpoints", "notices");
          }}
        >
          {ending.url} is told nothing any more, and what was still to be delivered there is dropped.
        </Confirm>
      )}
    </>
  );
}

function NewEndpoint({ onClose }: { onClose: () => void }) {
  const [url, setUrl] = useState("");
  const [events, setEvents] = useState<Event[]>(["run.failed", "schedule.paused", "balance.low"]);
  const [secret, setSecret] = useState<string | null>(null);
  const { act, busy, error } = useAct();
  const save = (submitted: FormEvent) => {
    submitted.preventDefault();
    void act(async () => {
      const created = await call("POST /api/v1/webhook-endpoints", { body: { url, events } });
      setSecret(created.secret);
      await stale("endpoints");
    });
  };
  const toggle = (event: Event) =>
    setEvents(events.includes(event) ? events.filter((other) => other !== event) : [...events, event]);
  return (
    <Dialog title="New webhook endpoint" onClose={onClose}>
      {secret !== null ? (
        <ShownOnce label="Signing secret" text={secret} onDone={onClose} />
      ) : (
        <FormErrorProvider value={error}>
          <form onSubmit={save} className="space-y-4">
            <TextField
              label="Address"
              param="url"
              type="url"
              required
              value={url}
              onValue={setUrl}
              placeholder="https://example.com/hook"
            />
            <fieldset>
              <legend className="mb-1 font-medium">Tell it when</legend>
              <div className="space-y-1.5">
                {(Object.keys(EVENTS) as Event[]).map((event) => (
                  <label key={event} className="flex items-center gap-2">
                    <input
                      type="checkbox"
                      className="size-4 accent-accent"
                      checked={events.includes(event)}
                      onChange={() => toggle(event)}
                    />
                    {EVENTS[event]}
                  </label>
                ))}
              </div>
            </fieldset>
            <FormEnd error={error} busy={busy} onCancel={onClose} disabled={events.length === 0}>
              Make it
            </FormEnd>
          </form>
        </FormErrorProvider>
      )}
    </Dialog>
  );
}
