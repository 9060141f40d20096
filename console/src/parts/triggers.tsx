import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { type Agent, stale, type Trigger, triggerDeliveriesQuery, triggersQuery } from "../api/queries.ts";
import { ago, count, instant } from "../format.ts";
import { Badge, Button, Callout, Card, Empty, Status } from "../ui/basics.tsx";
import { Copyable } from "../ui/copy.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { RecordItem, RecordsCard } from "../ui/records-card.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { ReplaceSecret } from "./replace-secret.tsx";
import { TriggerDialog } from "./trigger-dialog.tsx";

/** The addresses at which other services start runs of an agent, and what they have sent. */
export function AgentTriggers({ agent }: { agent: Agent }) {
  const query = useQuery(triggersQuery(agent.id));
  const triggers = query.data;
  return (
    <div className="space-y-4">
      <RecordsCard
        title="Triggers"
        query={query}
        add="Add trigger"
        icon="provider"
        empty="A trigger is an address where another service, such as GitHub or Stripe, starts the agent with a webhook."
        dialog={(trigger, onClose) => <TriggerDialog agent={agent} trigger={trigger} onClose={onClose} />}
      >
        {(trigger, onEdit) => <OneTrigger key={trigger.id} trigger={trigger} onEdit={onEdit} />}
      </RecordsCard>
      {triggers?.map((trigger) => (
        <Deliveries key={trigger.id} trigger={trigger} is_only={triggers.length === 1} />
      ))}
    </div>
  );
}

/** The parameters of a request about one trigger. */
const pathOf = ({ id, agent_id }: Trigger) => ({ params: { id: agent_id, trigger_id: id } });

function OneTrigger({ trigger, onEdit }: { trigger: Trigger; onEdit: () => void }) {
  const { name, url, enabled, former_secret_until, last_rejected_at } = trigger;
  const [asked, setAsked] = useState<"replace" | "delete" | null>(null);
  const close = () => setAsked(null);
  return (
    <RecordItem
      name={name}
      status={<Badge tone={enabled ? "good" : "neutral"}>{enabled ? "on" : "off"}</Badge>}
      facts={
        <p className="text-muted">
          {trigger.last_delivery_at === null ? "No deliveries yet" : `Last delivery ${ago(trigger.last_delivery_at)}`}
          {former_secret_until !== null && ` · a former secret is accepted until ${instant(former_secret_until)}`}
        </p>
      }
      buttons={
        <Button aria-label={`Replace secret of ${name}`} onClick={() => setAsked("replace")}>
          Replace secret
        </Button>
      }
      onEdit={onEdit}
      onDelete={() => setAsked("delete")}
    >
      <Copyable label={`Address of ${name}`} text={url} />
      {last_rejected_at !== null && (
        <Callout tone="warn" icon="warning">
          {count(trigger.rejected_count, "delivery", "deliveries")} did not prove the sender, the last one{" "}
          {ago(last_rejected_at)}. {trigger.last_rejected_reason}
        </Callout>
      )}
      {asked === "replace" && (
        <ReplaceSecret
          name={name}
          overlap={{ label: "Accept the former secret", hint: "Give the sender the new secret within this time." }}
          own="If the sender makes the secret, as Stripe, Slack and Shopify do. Empty: a new one."
          replace={async (body) => {
            const path = "POST /api/v1/agents/{id}/triggers/{trigger_id}/rotate";
            const replaced = await call(path, { ...pathOf(trigger), body });
            await stale("agents");
            return replaced;
          }}
          onClose={close}
        />
      )}
      {asked === "delete" && (
        <Confirm
          title={`Delete trigger ${name}?`}
          action="Delete trigger"
          saved="Trigger deleted"
          onConfirm={async () => {
            await call("DELETE /api/v1/agents/{id}/triggers/{trigger_id}", pathOf(trigger));
            await stale("agents");
          }}
          onClose={close}
        >
          Its address answers 404 from then on, and its list of deliveries is deleted. The runs so far stay. This cannot
          be undone.
        </Confirm>
      )}
    </RecordItem>
  );
}

type Delivery = Answer<"GET /api/v1/agents/{id}/triggers/{trigger_id}/deliveries">["deliveries"][number];

const OUTCOME: Record<Delivery["outcome"], string> = { run: "run", filtered: "filtered", failed: "no run" };

function Deliveries({ trigger, is_only }: { trigger: Trigger; is_only: boolean }) {
  const resend = useMutation({
    mutationFn: (delivery_id: string) =>
      call("POST /api/v1/agents/{id}/triggers/{trigger_id}/deliveries/{delivery_id}/resend", {
        params: { ...pathOf(trigger).params, delivery_id },
      }),
    onSuccess: ({ outcome }) =>
      confirmSaved(outcome === "run" ? "Sent again: a run is queued" : "Sent again: filtered"),
    onSettled: () => stale("agents", "runs"),
  });
  const columns: Column<Delivery>[] = [
    { title: "Received", cell: ({ received_at }) => <span className="whitespace-nowrap">{instant(received_at)}</span> },
    {
      title: "Outcome",
      cell: ({ outcome, run_id, run, received_at }) =>
        run_id === null ? (
          <Badge tone={outcome === "failed" ? "warn" : "neutral"}>{OUTCOME[outcome]}</Badge>
        ) : run === null ? (
          <span className="text-muted">Ran, no longer kept</span>
        ) : (
          <Link to="/agents/$id/runs/$run_id" params={{ id: trigger.agent_id, run_id }}>
            <Status status={run.status} has_errors={run.has_errors} />
            <span className="sr-only"> run of {instant(received_at)}</span>
          </Link>
        ),
    },
    {
      title: "Detail",
      cell: ({ error, attempts, resent_from }) => (
        <span className="block min-w-28 wrap-break-word">
          {error?.message}
          {resent_from !== null && <span className="text-muted"> sent again</span>}
          {attempts > 1 && <span className="text-muted"> came {attempts} times</span>}
        </span>
      ),
    },
    {
      title: "Sender's id",
      wide: true,
      cell: ({ delivery_id }) => <span className="text-sm text-muted wrap-anywhere">{delivery_id}</span>,
    },
    {
      title: "",
      cell: ({ id, received_at }) => (
        <Button
          aria-label={`Send again the delivery of ${instant(received_at)}`}
          busy={resend.isPending && resend.variables === id}
          onClick={() => resend.mutate(id)}
        >
          Send again
        </Button>
      ),
    },
  ];
  return (
    <Card
      title={is_only ? "Deliveries" : `Deliveries to ${trigger.name}`}
      note="Of the last 7 days, those that proved their sender"
      flush
    >
      {resend.error !== null && (
        <div className="p-4">
          <ProblemNotice error={resend.error} />
        </div>
      )}
      <PagedTable
        label={`Deliveries to ${trigger.name}`}
        query={triggerDeliveriesQuery(trigger)}
        columns={columns}
        keyOf={({ id }) => id}
        empty={
          <Empty icon="provider" title="No deliveries yet">
            Have the service send one, for example with its button for a test delivery.
          </Empty>
        }
      />
    </Card>
  );
}
