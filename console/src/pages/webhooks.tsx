import { useMutation, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { type Answer, type Body, call } from "../api/client.ts";
import { endpointsQuery, listFrom, profileQuery, sessionQuery, stale } from "../api/queries.ts";
import { EVENT_NAMES, EVENT_TEXTS, type Event, eventText } from "../event-words.ts";
import { ago, count, instant, number } from "../format.ts";
import { DeliveryStatus } from "../parts/delivery-status.tsx";
import { ReplaceSecret } from "../parts/replace-secret.tsx";
import { Badge, Button, Card, Empty, PageHeader } from "../ui/basics.tsx";
import { ShownOnce } from "../ui/copy.tsx";
import { Confirm, Dialog, DialogForm } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { type Column, PagedTable, useFirstPage, When } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { SelectField } from "../ui/select.tsx";

type Endpoint = Answer<"GET /api/v1/webhook-endpoints">["webhook_endpoints"][number];
type Delivery = Answer<"GET /api/v1/webhook-endpoints/{id}/deliveries">["deliveries"][number];

type Changes = Body<"PATCH /api/v1/webhook-endpoints/{id}">;

const MAIL = "mailto:";
const isMail = ({ url }: Endpoint) => url.startsWith(MAIL);
const addressOf = (url: string) => (url.startsWith(MAIL) ? url.slice(MAIL.length) : url);

const update = async (id: string, body: Changes) => {
  await call("PATCH /api/v1/webhook-endpoints/{id}", { params: { id }, body });
  await stale("endpoints");
};

/** The addresses to which notices are sent, and their deliveries. */
export function WebhooksPage() {
  const { rows, error, refetch } = useFirstPage(endpointsQuery);
  const [creating, setCreating] = useState(false);
  const create = (
    <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>
      New endpoint
    </Button>
  );
  return (
    <>
      <PageHeader
        title="Webhooks"
        note="Where notices are sent: to your programs, signed by Standard Webhooks, or to your e-mail address."
      >
        {create}
      </PageHeader>
      {error !== null && <ProblemNotice error={error} onRetry={() => void refetch()} />}
      {rows?.length === 0 && (
        <Card flush>
          <Empty icon="send" title="No endpoints yet" action={create}>
            Notices appear only on the page Notices. Create an endpoint to get them elsewhere.
          </Empty>
        </Card>
      )}
      <div className="space-y-4">
        {rows?.map((endpoint) => (
          <EndpointCard key={endpoint.id} endpoint={endpoint} />
        ))}
      </div>
      {creating && <EndpointDialog onClose={() => setCreating(false)} />}
    </>
  );
}

function EndpointCard({ endpoint }: { endpoint: Endpoint }) {
  const { id, url, status, events, former_secret_until, last_delivery, failed_deliveries } = endpoint;
  const [open, setOpen] = useState<"edit" | "replace" | "delete" | null>(null);
  const test = useMutation({
    mutationFn: () => call("POST /api/v1/webhook-endpoints/{id}/test", { params: { id } }),
  });
  const is_enabled = status === "enabled";
  const pause = useMutation({
    mutationFn: () => update(id, { status: is_enabled ? "disabled" : "enabled" }),
    onSuccess: () => confirmSaved(is_enabled ? "Endpoint paused" : "Endpoint resumed"),
  });
  const address = addressOf(url);
  const problem = test.error ?? pause.error;
  return (
    <Card flush>
      <section aria-label={`Endpoint ${address}`}>
        <div className="space-y-3 px-4 py-3">
          <div className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
            <h2 className="min-w-0 font-semibold break-all">{address}</h2>
            <Badge tone={is_enabled ? "good" : "warn"}>{is_enabled ? "Enabled" : "Paused"}</Badge>
          </div>
          <p className="text-sm text-muted">{events.map(eventText).join(", ")}</p>
          <p className="text-sm">
            {last_delivery === null ? (
              "No notice was sent yet. Test events are not counted."
            ) : (
              <>
                Last sent {ago(last_delivery.last_attempt_at ?? last_delivery.created_at)}:{" "}
                {eventText(last_delivery.event)} <DeliveryStatus delivery={last_delivery} />
              </>
            )}
            {failed_deliveries > 0 && ` ${count(failed_deliveries, "delivery", "deliveries")} failed.`}
            {former_secret_until !== null && ` A former secret signs too until ${instant(former_secret_until)}.`}
          </p>
          <div className="flex flex-wrap gap-2">
            {!isMail(endpoint) && (
              <Button icon="send" busy={test.isPending} onClick={() => test.mutate()}>
                Send test event
              </Button>
            )}
            <Button icon="edit" onClick={() => setOpen("edit")}>
              Edit
            </Button>
            {!isMail(endpoint) && <Button onClick={() => setOpen("replace")}>Replace secret</Button>}
            <Button busy={pause.isPending} onClick={() => pause.mutate()}>
              {is_enabled ? "Pause" : "Resume"}
            </Button>
            <Button kind="quiet" icon="trash" onClick={() => setOpen("delete")}>
              Delete
            </Button>
          </div>
          {problem !== null && <ProblemNotice error={problem} />}
          <div role="status">{test.data !== undefined && <TestResult result={test.data} />}</div>
        </div>
        <Deliveries endpoint={endpoint} />
      </section>
      {open === "edit" && <EndpointDialog endpoint={endpoint} onClose={() => setOpen(null)} />}
      {open === "replace" && (
        <ReplaceSecret
          name={address}
          overlap={{
            label: "Sign with the former secret too",
            hint: "Give your program the new secret within this time: each delivery has both signatures.",
          }}
          replace={async (body) => {
            const replaced = await call("POST /api/v1/webhook-endpoints/{id}/rotate", { params: { id }, body });
            await stale("endpoints");
            return replaced;
          }}
          onClose={() => setOpen(null)}
        />
      )}
      {open === "delete" && (
        <Confirm
          title="Delete this endpoint?"
          action="Delete endpoint"
          saved="Endpoint deleted"
          onClose={() => setOpen(null)}
          onConfirm={async () => {
            await call("DELETE /api/v1/webhook-endpoints/{id}", { params: { id } });
            await stale("endpoints", "notices");
          }}
        >
          {address} receives no more notices. Pending deliveries are cancelled.
        </Confirm>
      )}
    </Card>
  );
}

const ERRORS: Record<string, string> = {
  connect_failed: "The address could not be reached",
  dns_failed: "The name of the address is not known",
  timeout: "There was no answer in time",
  egress_refused: "The address is not on the public internet",
  endpoint_disabled: "The endpoint was paused",
  secret_unreadable: "The signing secret cannot be read: replace it",
  not_sent: "This is a drill, which sends nothing",
};
const errorText = (code: string) => ERRORS[code] ?? code.replaceAll("_", " ");

type Tested = Answer<"POST /api/v1/webhook-endpoints/{id}/test">;
function TestResult({ result: { delivered, status, error, duration_ms, answer } }: { result: Tested }) {
  return (
    <div className={`rounded-lg px-3 py-2.5 ${delivered ? "bg-good-soft" : "bg-bad-soft"}`}>
      <p className={`font-medium ${delivered ? "text-good" : "text-bad"}`}>
        {delivered ? "Test event delivered" : "Test event not delivered"}
      </p>
      <p>
        {status === null ? `${errorText(error ?? "")}.` : `The endpoint answered ${status}`}
        {status !== null && ` after ${number(duration_ms)} ms${error === null ? "" : `, then: ${errorText(error)}`}.`}
      </p>
      {answer !== null && answer !== "" && (
        <pre className="mt-1 max-h-32 overflow-auto text-sm whitespace-pre-wrap wrap-anywhere">{answer}</pre>
      )}
    </div>
  );
}

const deliveriesQuery = (id: string) => ({
  ...listFrom(["endpoints", id, "deliveries"], "GET /api/v1/webhook-endpoints/{id}/deliveries", "deliveries", {
    params: { id },
    limit: 10,
  }),
  // No event says that a delivery ended.
  refetchInterval: 5_000,
});

function Deliveries({ endpoint }: { endpoint: Endpoint }) {
  const [open, setOpen] = useState(false);
  const columns: Column<Delivery>[] = [
    { title: "When", cell: ({ created_at }) => <When at={created_at} /> },
    { title: "Event", cell: ({ event }) => eventText(event) },
    {
      title: "State",
      cell: (delivery) => (
        <>
          <DeliveryStatus delivery={delivery} />
          <span className="block text-sm text-muted">
            {count(delivery.attempts, "try", "tries")}
            {delivery.last_error !== null && delivery.status !== "delivered" && `: ${errorText(delivery.last_error)}`}
          </span>
        </>
      ),
    },
    {
      title: "",
      numeric: true,
      cell: (delivery) =>
        endpoint.status === "enabled" &&
        delivery.status !== "pending" && <Resend endpoint={endpoint} delivery={delivery} />,
    },
  ];
  return (
    <details className="border-t border-line" open={open} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary className="w-fit px-4 py-2.5 text-sm text-muted hover:text-ink">Deliveries</summary>
      {open && (
        <PagedTable
          label={`Deliveries to ${addressOf(endpoint.url)}`}
          query={deliveriesQuery(endpoint.id)}
          columns={columns}
          keyOf={({ id }) => id}
          empty={<p className="px-4 pb-4 text-muted">No notice was sent to this endpoint.</p>}
        />
      )}
    </details>
  );
}

function Resend({ endpoint, delivery }: { endpoint: Endpoint; delivery: Delivery }) {
  const resend = useMutation({
    mutationFn: async () => {
      const params = { id: endpoint.id, delivery_id: delivery.id };
      await call("POST /api/v1/webhook-endpoints/{id}/deliveries/{delivery_id}/resend", { params });
      await stale("endpoints");
    },
    onSuccess: () => confirmSaved("The notice is sent again"),
  });
  return (
    <>
      <Button
        busy={resend.isPending}
        aria-label={`Resend ${eventText(delivery.event)} of ${instant(delivery.created_at)}`}
        onClick={() => resend.mutate()}
      >
        Resend
      </Button>
      {resend.error !== null && <ProblemNotice error={resend.error} />}
    </>
  );
}

const USUAL: Event[] = ["run.requires_action", "run.failed", "run.has_errors", "schedule.paused", "balance.low"];

/** Creates an endpoint, or changes one. */
function EndpointDialog({ endpoint, onClose }: { endpoint?: Endpoint; onClose: () => void }) {
  const { data: profile } = useSuspenseQuery(profileQuery);
  const sends_mail = useQuery(sessionQuery).data?.delivery === "mail";
  const [chosen, setChosen] = useState<"mail" | "webhook">("webhook");
  const by_mail = endpoint === undefined ? sends_mail && chosen === "mail" : isMail(endpoint);
  const [url, setUrl] = useState(endpoint === undefined || by_mail ? "" : endpoint.url);
  const [events, setEvents] = useState<Event[]>(endpoint?.events ?? USUAL);
  const [secret, setSecret] = useState<string | null>(null);
  const save = useMutation({
    mutationFn: async () => {
      if (endpoint !== undefined) {
        await update(endpoint.id, { ...(by_mail || url === endpoint.url ? {} : { url }), events });
        return null;
      }
      const body = { url: by_mail ? MAIL + profile.email : url, events };
      const created = await call("POST /api/v1/webhook-endpoints", { body });
      await stale("endpoints");
      return created.secret;
    },
    onSuccess: (shown) => {
      setSecret(shown);
      if (shown !== null) return;
      confirmSaved(endpoint === undefined ? "Notices are sent to your e-mail address" : "Endpoint saved");
      onClose();
    },
  });
  return (
    <Dialog title={endpoint === undefined ? "New endpoint" : "Edit endpoint"} onClose={onClose}>
      {secret !== null ? (
        <ShownOnce label="Signing secret" text={secret} onDone={onClose} />
      ) : (
        <DialogForm
          save={save}
          action={endpoint === undefined ? "Create endpoint" : "Save endpoint"}
          onCancel={onClose}
          disabled={events.length === 0}
        >
          {endpoint === undefined && sends_mail && (
            <SelectField
              label="Send to"
              {...(by_mail && { param: "url" })}
              value={chosen}
              options={[
                ["webhook", "A program of mine (webhook)"],
                ["mail", `My e-mail address (${profile.email})`],
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
          <EventBoxes events={events} onEvents={setEvents} />
        </DialogForm>
      )}
    </Dialog>
  );
}

function EventBoxes({
  events,
  onEvents,
}: {
  events: readonly Event[];
  onEvents: (events: Event[]) => void;
}): ReactNode {
  const toggle = (event: Event) =>
    onEvents(events.includes(event) ? events.filter((other) => other !== event) : [...events, event]);
  return (
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
            {EVENT_TEXTS[event]}
          </label>
        ))}
      </div>
    </fieldset>
  );
}
