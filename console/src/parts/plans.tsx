import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { type Plan, plansQuery, stale } from "../api/queries.ts";
import { day, money, number } from "../format.ts";
import { useAct } from "../ui/act.ts";
import { Badge, Button, Callout, Card, Skeleton } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

type Subscription = Answer<"GET /api/v1/billing/subscription">;
const CHANGED = ["subscription", "profile", "buckets", "transactions", "overage", "plans"];

/** The plans on offer, and the one that is subscribed. */
export function PlansTab({ subscription }: { subscription: Subscription | undefined }) {
  const plans = useQuery(plansQuery);
  const [cancelling, setCancelling] = useState(false);
  if (plans.isError) return <ProblemNotice error={plans.error} onRetry={() => void plans.refetch()} />;
  if (plans.data === undefined || subscription === undefined) return <Skeleton lines={6} />;
  const nameOf = (id: string | null) => plans.data.find((plan) => plan.id === id)?.name ?? id;
  const active = subscription.status === "active" || subscription.status === "past_due";
  return (
    <div className="space-y-4">
      {subscription.status === "past_due" && (
        <Callout tone="bad" icon="warning">
          The last payment failed. Check the payment method; the plan ends if it stays unpaid.
        </Callout>
      )}
      {subscription.checkout_url !== undefined && (
        <Callout tone="accent" icon="billing">
          The plan begins once it is paid.{" "}
          <a className="link" href={subscription.checkout_url}>
            Go to the checkout
          </a>
        </Callout>
      )}
      {active && subscription.current_period_end !== null && (
        <Card>
          <div className="flex flex-wrap items-center justify-between gap-3">
            <p>
              <strong>{nameOf(subscription.plan_id)}</strong> {subscription.cancel_at_period_end ? "ends" : "renews"} on{" "}
              {day(subscription.current_period_end)}
              {subscription.pending_plan_id !== null && `, then as ${nameOf(subscription.pending_plan_id)}`}.
            </p>
            {!subscription.cancel_at_period_end && (
              <Button kind="danger" onClick={() => setCancelling(true)}>
                Cancel the plan
              </Button>
            )}
          </div>
        </Card>
      )}
      <ul className="grid gap-4 sm:grid-cols-2 xl:grid-cols-4">
        {plans.data.map((plan) => (
          <PlanCard
            key={plan.id}
            plan={plan}
            current={active ? subscription.plan_id : null}
            ending={subscription.cancel_at_period_end}
            plans={plans.data}
          />
        ))}
      </ul>
      <p className="text-muted">
        Unused plan tokens roll over. An upgrade takes effect at once, with the difference in tokens for the rest of the
        period; a downgrade at the period's end.
      </p>
      {cancelling && (
        <Confirm
          title="Cancel the plan?"
          act="Cancel at the period's end"
          onClose={() => setCancelling(false)}
          onAct={async () => {
            await call("DELETE /api/v1/billing/subscription");
            await stale(...CHANGED);
          }}
        >
          It stays until the end of the period you have paid for, and then ends. Your tokens stay until they expire.
        </Confirm>
      )}
    </div>
  );
}

interface PlanCardProps {
  plan: Plan;
  /** The plan that is subscribed. */
  current: string | null;
  ending: boolean;
  plans: readonly Plan[];
}
function PlanCard({ plan, current, ending, plans }: PlanCardProps) {
  const { act, busy, error } = useAct();
  const own = plan.id === current;
  const price = plans.find(({ id }) => id === current)?.price_cents;
  const label = own
    ? ending
      ? "Keep it"
      : "Your plan"
    : price === undefined
      ? "Subscribe"
      : plan.price_cents > price
        ? "Upgrade now"
        : "Downgrade";
  const subscribe = () =>
    act(async () => {
      const back = `${location.origin}/billing?tab=plans`;
      const { checkout_url } = await call("POST /api/v1/billing/subscription", {
        body: { plan_id: plan.id, success_url: back, cancel_url: back },
      });
      if (checkout_url !== undefined) location.assign(checkout_url);
      await stale(...CHANGED);
    });
  return (
    <li className={`flex flex-col rounded-xl border bg-panel p-4 ${own ? "border-accent" : "border-line"}`}>
      <h2 className="flex items-center justify-between font-semibold">
        {plan.name} {own && <Badge tone="accent">yours</Badge>}
      </h2>
      <p className="mt-2">
        <span className="text-2xl font-semibold tracking-tight">{money(plan.price_cents, plan.currency)}</span>{" "}
        <span className="text-muted">a {plan.interval}</span>
      </p>
      <p className="mt-2">{number(plan.included_tokens)} tokens</p>
      <p className="mb-4 text-sm text-muted">roll over for {plan.rollover_months} months</p>
      {error !== null && (
        <div className="mb-3">
          <ProblemNotice error={error} />
        </div>
      )}
      <Button
        kind={own ? "plain" : "primary"}
        className="mt-auto"
        busy={busy}
        disabled={own && !ending}
        onClick={subscribe}
        aria-label={`${label}: ${plan.name}`}
      >
        {label}
      </Button>
    </li>
  );
}
