import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api/client.ts";
import { type Plan, plansQuery, stale, subscriptionQuery } from "../api/queries.ts";
import { count, day, money, number } from "../format.ts";
import { Badge, Button, Callout, Card } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { Unloaded } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { ConfirmChange, nextPayment } from "./due.tsx";

const CHANGED = ["subscription", "profile", "buckets", "transactions", "overage", "plans", "payments", "preview"];

/** The plans on offer and the current plan. */
export function PlansTab() {
  const offer = useQuery(plansQuery);
  const { data: subscription, ...own } = useQuery(subscriptionQuery);
  const [cancelling, setCancelling] = useState(false);
  if (offer.data === undefined) return <Unloaded error={offer.error} refetch={offer.refetch} />;
  if (subscription === undefined) return <Unloaded error={own.error} refetch={own.refetch} />;
  const { plans, payments } = offer.data;
  const nameOf = (id: string | null) => plans.find((plan) => plan.id === id)?.name ?? id;
  const active = subscription.status === "active" || subscription.status === "past_due";
  const pending = subscription.cancel_at_period_end ? null : subscription.pending_plan_id;
  return (
    <div className="space-y-4">
      {subscription.status === "past_due" && (
        <Callout tone="bad" icon="warning">
          The last payment failed. Check the payment method. Without a payment the plan ends.
        </Callout>
      )}
      {payments === "none" && <NoPayments />}
      {subscription.checkout_url !== undefined && (
        <Callout tone="accent" icon="billing">
          The plan starts after the payment.{" "}
          <a className="link" href={subscription.checkout_url}>
            Go to checkout
          </a>
        </Callout>
      )}
      {active && subscription.current_period_end !== null && (
        <Card>
          <div className="flex flex-wrap items-center justify-between gap-3">
            <p>
              <strong>{nameOf(subscription.plan_id)}</strong>{" "}
              {subscription.cancel_at_period_end
                ? "ends"
                : pending === null
                  ? "renews"
                  : `changes to ${nameOf(pending)}`}{" "}
              on {day(subscription.current_period_end)}.
            </p>
            {!subscription.cancel_at_period_end && (
              <Button kind="danger" onClick={() => setCancelling(true)}>
                Cancel plan
              </Button>
            )}
          </div>
        </Card>
      )}
      <ul className="grid gap-4 sm:grid-cols-2 xl:grid-cols-4">
        {plans.map((plan) => (
          <PlanCard
            key={plan.id}
            plan={plan}
            current={active ? subscription.plan_id : null}
            ending={subscription.cancel_at_period_end}
            pending={pending}
            plans={plans}
            payments={payments}
          />
        ))}
      </ul>
      <p className="max-w-3xl text-pretty text-muted">
        Unused plan tokens roll over. An upgrade takes effect immediately and grants the difference in tokens for the
        rest of the period. A downgrade takes effect at the end of the period.
      </p>
      {cancelling && (
        <Confirm
          title="Cancel the plan?"
          action="Cancel plan"
          keep="Keep plan"
          saved="Plan cancelled"
          onClose={() => setCancelling(false)}
          onConfirm={async () => {
            await call("DELETE /api/v1/billing/subscription");
            await stale(...CHANGED);
          }}
        >
          The plan ends after the period that you have paid for. Your tokens stay until they expire.
        </Confirm>
      )}
    </div>
  );
}

/** Says why the buttons are disabled on a service without payments. */
export function NoPayments() {
  return (
    <Callout tone="warn" icon="billing">
      You cannot buy tokens here: this service has no payments. Ask its operator for tokens or a plan.
    </Callout>
  );
}

interface PlanCardProps {
  plan: Plan;
  /** The id of the current plan. */
  current: string | null;
  ending: boolean;
  /** The id of the next plan, from the end of the period. */
  pending: string | null;
  plans: readonly Plan[];
  payments: "stripe" | "sandbox" | "none";
}
function PlanCard({ plan, current, ending, pending, plans, payments }: PlanCardProps) {
  const [asking, setAsking] = useState(false);
  const own = plan.id === current;
  const price = plans.find(({ id }) => id === current)?.price_cents;
  const change = own ? "keep" : price === undefined ? "subscribe" : plan.price_cents > price ? "upgrade" : "downgrade";
  const settled = own ? !ending && pending === null : plan.id === pending;
  const label = settled ? (own ? "Current plan" : "Next plan") : LABELS[change];
  const subscribe = async () => {
    const back = `${location.origin}/billing?tab=plans`;
    const { checkout_url } = await call("POST /api/v1/billing/subscription", {
      body: { plan_id: plan.id, success_url: back, cancel_url: back },
    });
    if (checkout_url !== undefined) return location.assign(checkout_url);
    await stale(...CHANGED);
    confirmSaved("Plan saved");
  };
  return (
    <li className={`flex flex-col rounded-xl border bg-panel p-4 ${own ? "border-accent" : "border-line"}`}>
      <h2 className="flex items-center justify-between font-semibold">
        {plan.name} {own && <Badge tone="accent">current</Badge>} {plan.id === pending && <Badge>next</Badge>}
      </h2>
      <p className="mt-2">
        <span className="text-2xl font-semibold tracking-tight">{money(plan.price_cents, plan.currency)}</span>{" "}
        <span className="text-muted">per {plan.interval}</span>
      </p>
      <p className="mt-2">{number(plan.included_tokens)} tokens</p>
      <p className="mb-4 text-sm text-muted">Unused tokens roll over for {count(plan.rollover_months, "month")}</p>
      <Button
        kind={change === "subscribe" || change === "upgrade" ? "primary" : "plain"}
        className="mt-auto"
        disabled={settled || payments === "none"}
        onClick={() => setAsking(true)}
        aria-label={`${label}: ${plan.name}`}
      >
        {label}
      </Button>
      {asking && (
        <ConfirmChange
          title={`${label}: ${plan.name}`}
          action={change === "subscribe" && payments === "stripe" ? "Go to checkout" : LABELS[change]}
          change={{ of: "subscription", body: { plan_id: plan.id } }}
          later={(preview) => (
            <>
              {nextPayment(preview, plan.interval)} {EFFECTS[preview.change ?? change]}
              {payments === "sandbox" && " Payments are simulated: no money is moved."}
            </>
          )}
          onClose={() => setAsking(false)}
          onConfirm={subscribe}
        />
      )}
    </li>
  );
}

const EFFECTS = {
  keep: "The plan continues, and a pending change is undone.",
  subscribe: "The plan renews until you cancel it.",
  upgrade: "The change is immediate.",
  downgrade: "The present plan and its tokens stay until then.",
} as const;
const LABELS = {
  keep: "Keep plan",
  subscribe: "Subscribe",
  upgrade: "Upgrade now",
  downgrade: "Downgrade",
} as const;
