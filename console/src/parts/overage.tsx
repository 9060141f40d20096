import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { overageQuery, queryClient, stale } from "../api/queries.ts";
import { day, dollars, money, number } from "../format.ts";
import { useAct } from "../ui/act.ts";
import { Button, buttonClass, Card, Empty, Facts, Skeleton } from "../ui/basics.tsx";
import { Meter } from "../ui/chart.tsx";
import { FormErrorProvider, TextField, Toggle } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

type Overage = Answer<"GET /api/v1/billing/overage">;

/** Going on past the plan's tokens, within a cap. */
export function OverageTab() {
  const { data: overage, error, isError, refetch } = useQuery(overageQuery);
  if (isError) return <ProblemNotice error={error} onRetry={() => void refetch()} />;
  if (overage === undefined) return <Skeleton lines={4} />;
  if (!overage.eligible && !overage.enabled) {
    return (
      <Card flush>
        <Empty
          icon="billing"
          title="Overage comes with a plan"
          action={
            <Link to="/billing" search={{ tab: "plans" }} className={buttonClass("primary")}>
              See plans
            </Link>
          }
        >
          Subscribers can let their agents go on when the plan's tokens are used up, up to a cap, billed as used.
        </Empty>
      </Card>
    );
  }
  return (
    <div className="grid items-start gap-4 lg:grid-cols-2">
      <Switching overage={overage} />
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
            ["Due", money(overage.amount_due_cents, "usd")],
            ["Invoiced already", money(overage.invoiced_cents, "usd")],
            ["Held by calls", number(overage.held_tokens)],
            ["Left", number(overage.remaining_tokens)],
          ]}
        />
      </Card>
    </div>
  );
}

function Switching({ overage }: { overage: Overage }) {
  const { act, busy, error } = useAct();
  const [cap, setCap] = useState(overage.cap_tokens === null ? "" : String(overage.cap_tokens));
  const keep = async (changed: Overage) => {
    queryClient.setQueryData(overageQuery.queryKey, changed);
    await stale("profile");
  };
  const turn = (enable: boolean) =>
    act(async () =>
      keep(await call(enable ? "POST /api/v1/billing/overage/enable" : "POST /api/v1/billing/overage/disable")),
    );
  const saveCap = (event: FormEvent) => {
    event.preventDefault();
    void act(async () =>
      keep(await call("PUT /api/v1/billing/overage", { body: { cap_tokens: cap === "" ? null : Number(cap) } })),
    );
  };
  return (
    <Card title="Overage">
      <div className="space-y-4">
        <Toggle
          label="Go on past the plan's tokens"
          checked={overage.enabled}
          disabled={busy || (!overage.enabled && !overage.eligible)}
          onChecked={(enable) => void turn(enable)}
          hint="Billed as used, at 6,250 tokens a cent, and never beyond the cap."
        />
        <FormErrorProvider value={error}>
          <form onSubmit={saveCap} className="flex items-end gap-2">
            <TextField
              label="Cap a period, in tokens"
              param="cap_tokens"
              type="number"
              min={0}
              inputMode="numeric"
              className="flex-1"
              value={cap}
              onValue={setCap}
              placeholder="the plan's tokens"
            />
            <Button type="submit" busy={busy}>
              Set the cap
            </Button>
          </form>
          {cap !== "" && <p className="text-sm text-muted">At most {dollars(Number(cap))} a period.</p>}
        </FormErrorProvider>
        {error !== null && <ProblemNotice error={error} />}
      </div>
    </Card>
  );
}
