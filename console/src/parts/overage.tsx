import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { overageQuery, queryClient, stale } from "../api/queries.ts";
import { day, dollars, money, number } from "../format.ts";
import { Button, buttonClass, Card, Empty, Facts, Skeleton } from "../ui/basics.tsx";
import { Meter } from "../ui/chart.tsx";
import { FormErrorProvider, sending, TextField, Toggle } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";

type Overage = Answer<"GET /api/v1/billing/overage">;

/** Usage beyond the plan's tokens, up to a cap. */
export function OverageTab() {
  const { data: overage, error, refetch } = useQuery(overageQuery);
  if (overage === undefined) {
    return error === null ? <Skeleton lines={4} /> : <ProblemNotice error={error} onRetry={() => void refetch()} />;
  }
  if (!overage.eligible && !overage.enabled) {
    return (
      <Card flush>
        <Empty
          icon="billing"
          title="Overage needs a plan"
          action={
            <Link to="/billing" search={{ tab: "plans" }} className={buttonClass("primary")}>
              See plans
            </Link>
          }
        >
          With a plan, your agents can keep running after the plan's tokens are used up. You set a cap and pay for the
          usage.
        </Empty>
      </Card>
    );
  }
  return (
    <div className="grid items-start gap-4 lg:grid-cols-2">
      <OverageSettings overage={overage} />
      <Card title="This period" note={overage.period_end === null ? undefined : `until ${day(overage.period_end)}`}>
        <div className="mb-4">
          <p className="mb-1.5">
            {number(overage.used_tokens)}{" "}
            <span className="text-muted">of {number(overage.cap_tokens ?? 0)} tokens used</span>
          </p>
          <Meter label="Overage used" value={overage.used_tokens} of={overage.cap_tokens ?? 0} tone="bg-warn" />
        </div>
        <Facts
          facts={[
            ["Amount due", money(overage.amount_due_cents, "usd")],
            ["Already invoiced", money(overage.invoiced_cents, "usd")],
            ["Held for running calls", number(overage.held_tokens)],
            ...(overage.enabled ? [["Left", number(overage.remaining_tokens)] as [string, string]] : []),
          ]}
        />
      </Card>
    </div>
  );
}

function OverageSettings({ overage }: { overage: Overage }) {
  const [cap, setCap] = useState(overage.cap_tokens === null ? "" : String(overage.cap_tokens));
  const store = (changed: Overage) => {
    queryClient.setQueryData(overageQuery.queryKey, changed);
    return stale("profile");
  };
  const enable = useMutation({
    mutationFn: (enabled: boolean) =>
      call(enabled ? "POST /api/v1/billing/overage/enable" : "POST /api/v1/billing/overage/disable"),
    onSuccess: (changed) => {
      confirmSaved(changed.enabled ? "Overage enabled" : "Overage disabled");
      return store(changed);
    },
  });
  const saveCap = useMutation({
    mutationFn: () => call("PUT /api/v1/billing/overage", { body: { cap_tokens: cap === "" ? null : Number(cap) } }),
    onSuccess: (changed) => {
      confirmSaved("Cap saved");
      return store(changed);
    },
  });
  const error = saveCap.error ?? enable.error;
  return (
    <Card title="Overage">
      <div className="space-y-4">
        <Toggle
          label="Continue beyond the plan's tokens"
          checked={overage.enabled}
          disabled={enable.isPending || (!overage.enabled && !overage.eligible)}
          onChecked={(enabled) => enable.mutate(enabled)}
          hint="You pay one cent for 6,250 tokens, never more than the cap."
        />
        <FormErrorProvider value={error}>
          <form {...sending(saveCap)} className="flex items-end gap-2">
            <TextField
              label="Cap per period, in tokens"
              param="cap_tokens"
              type="number"
              min={0}
              inputMode="numeric"
              className="flex-1"
              value={cap}
              onValue={setCap}
              placeholder="the plan's tokens"
            />
            <Button type="submit" busy={saveCap.isPending}>
              Save cap
            </Button>
          </form>
          {cap !== "" && <p className="text-sm text-muted">At most {dollars(Number(cap))} per period.</p>}
        </FormErrorProvider>
        {error !== null && <ProblemNotice error={error} />}
      </div>
    </Card>
  );
}
