import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { TOKENS_PER_CENT } from "../../../src/kernel/constants.ts";
import { type Answer, call } from "../api/client.ts";
import { overageQuery, queryClient, stale } from "../api/queries.ts";
import { day, money, number } from "../format.ts";
import { Button, buttonClass, Card, Empty, Facts, Skeleton } from "../ui/basics.tsx";
import { Meter } from "../ui/chart.tsx";
import { onSubmit, TextField, Toggle } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { ConfirmChange } from "./due.tsx";

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
            ["Amount due", money(overage.amount_due_cents, overage.currency)],
            ["Already invoiced", money(overage.invoiced_cents, overage.currency)],
            ["Held for running calls", number(overage.held_tokens)],
            ...(overage.enabled ? [["Left", number(overage.remaining_tokens)] as [string, string]] : []),
          ]}
        />
      </Card>
    </div>
  );
}

/** A change of the settings, before it is confirmed. */
interface Asked {
  title: string;
  action: string;
  saved: string;
  body: { enabled?: boolean; cap_tokens?: number | null };
  make: () => Promise<Overage>;
}

function OverageSettings({ overage }: { overage: Overage }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const [cap, setCap] = useState(overage.cap_tokens === null ? "" : String(overage.cap_tokens));
  const cap_tokens = cap === "" ? null : Number(cap);
  const price = (tokens: number) => money(tokens / TOKENS_PER_CENT, overage.currency);
  const askEnabled = (enabled: boolean) =>
    setAsked({
      title: enabled ? "Continue beyond the plan's tokens?" : "Stop at the end of the plan's tokens?",
      action: enabled ? "Enable overage" : "Disable overage",
      saved: enabled ? "Overage enabled" : "Overage disabled",
      body: { enabled },
      make: () => call(enabled ? "POST /api/v1/billing/overage/enable" : "POST /api/v1/billing/overage/disable"),
    });
  const askCap = () =>
    setAsked({
      title: "Change the cap?",
      action: "Save cap",
      saved: "Cap saved",
      body: { cap_tokens },
      make: () => call("PUT /api/v1/billing/overage", { body: { cap_tokens } }),
    });
  return (
    <Card title="Overage">
      <div className="space-y-4">
        <Toggle
          label="Continue beyond the plan's tokens"
          checked={overage.enabled}
          disabled={!overage.enabled && !overage.eligible}
          onChecked={askEnabled}
          hint={`You pay ${price(TOKENS_PER_CENT)} for ${number(TOKENS_PER_CENT)} tokens, never more than the cap.`}
        />
        <form onSubmit={onSubmit(askCap)} className="space-y-3">
          <TextField
            label="Cap per period, in tokens"
            param="cap_tokens"
            type="number"
            min={0}
            inputMode="numeric"
            value={cap}
            onValue={setCap}
            placeholder="the plan's tokens"
            hint={cap === "" ? "Empty: as many as the plan has." : `At most ${price(Number(cap))} in a period.`}
          />
          <Button type="submit">Save cap</Button>
        </form>
      </div>
      {asked !== null && (
        <ConfirmChange
          title={asked.title}
          action={asked.action}
          saved={asked.saved}
          change={{ of: "overage", body: asked.body }}
          later={({ next, most_cents, currency }) => (
            <>
              {next?.at != null &&
                `Overage until now, ${money(next.amount_cents, currency)}, is due on ${day(next.at)}. `}
              {most_cents !== null && `The overage of this period can cost at most ${money(most_cents, currency)}.`}
            </>
          )}
          onClose={() => setAsked(null)}
          onConfirm={async () => {
            queryClient.setQueryData(overageQuery.queryKey, await asked.make());
            await stale("profile");
          }}
        />
      )}
    </Card>
  );
}
