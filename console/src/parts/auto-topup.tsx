import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { PURCHASE_CENTS, TOKENS_PER_USD } from "../../../src/kernel/constants.ts";
import { type Answer, call } from "../api/client.ts";
import { autoTopupQuery, queryClient, stale } from "../api/queries.ts";
import { centsOf, dollars, money, number } from "../format.ts";
import { Button, Callout, Card, Skeleton } from "../ui/basics.tsx";
import { DollarField, onSubmit, TextField } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { ConfirmChange } from "./due.tsx";

type Settings = Answer<"GET /api/v1/billing/auto-topup">;

const REASONS = {
  payment_declined: "The last payment was declined, or no card is saved.",
  payment_mismatch: "The last payment had another amount than ordered.",
  payment_returned: "The last payment was refunded or disputed.",
} as const;

/** Purchases that happen by themselves when the balance is low. */
export function AutoTopup() {
  const { data: settings, error, refetch } = useQuery(autoTopupQuery);
  return (
    <Card title="Automatic top-ups" note="Buys tokens when your balance is below a threshold">
      {settings !== undefined && <AutoTopupForm settings={settings} />}
      {settings === undefined && error === null && <Skeleton lines={3} />}
      {settings === undefined && error !== null && <ProblemNotice error={error} onRetry={() => void refetch()} />}
    </Card>
  );
}

const inDollars = (cents: number | null) => (cents === null ? "" : String(cents / 100));

function AutoTopupForm({ settings }: { settings: Settings }) {
  const [threshold, setThreshold] = useState(String(settings.threshold_tokens ?? ""));
  const [amount, setAmount] = useState(inDollars(settings.amount_cents));
  const [cap, setCap] = useState(inDollars(settings.monthly_cap_cents));
  /** What to say once the person has confirmed: the settings are other ones by then. */
  const [asking, setAsking] = useState<string | null>(null);
  const body = {
    enabled: true,
    threshold_tokens: Number(threshold),
    amount_cents: centsOf(amount),
    monthly_cap_cents: centsOf(cap),
  };
  const disable = useMutation({
    mutationFn: () => call("PUT /api/v1/billing/auto-topup", { body: { enabled: false } }),
    onSuccess: (changed) => {
      confirmSaved("Automatic top-ups disabled");
      queryClient.setQueryData(autoTopupQuery.queryKey, changed);
    },
  });
  const action =
    settings.status === "off"
      ? "Enable automatic top-ups"
      : settings.status === "paused"
        ? "Resume automatic top-ups"
        : "Save settings";
  const least_cents = PURCHASE_CENTS.min;
  return (
    <>
      <form
        onSubmit={onSubmit(() =>
          setAsking(settings.status === "off" ? "Automatic top-ups enabled" : "Automatic top-ups saved"),
        )}
        className="space-y-4"
      >
        <StatusNote settings={settings} />
        <div className="grid items-start gap-4 md:grid-cols-3">
          <TextField
            label="Threshold in tokens"
            param="threshold_tokens"
            type="number"
            min={1}
            inputMode="numeric"
            required
            value={threshold}
            onValue={setThreshold}
            hint={
              threshold === ""
                ? `${number(TOKENS_PER_USD)} tokens are worth ${dollars(TOKENS_PER_USD)}.`
                : `Worth ${dollars(Number(threshold))}.`
            }
          />
          <DollarField
            label="Dollars per top-up"
            param="amount_cents"
            least_cents={least_cents}
            value={amount}
            onValue={setAmount}
          />
          <DollarField
            label="Most dollars per month"
            param="monthly_cap_cents"
            least_cents={Math.max(least_cents, centsOf(amount) || 0)}
            value={cap}
            onValue={setCap}
          />
        </div>
        {disable.error !== null && <ProblemNotice error={disable.error} />}
        <div className="flex flex-wrap gap-2">
          <Button type="submit" kind="primary">
            {action}
          </Button>
          {settings.enabled && (
            <Button busy={disable.isPending} onClick={() => disable.mutate()}>
              Disable automatic top-ups
            </Button>
          )}
        </div>
      </form>
      {asking !== null && (
        <ConfirmChange
          title="Buy tokens automatically?"
          action={action}
          saved={asking}
          change={{ of: "auto-topup", body }}
          later={({ due_now_cents, most_cents, currency }) => (
            <>
              {due_now_cents > 0 && "Your balance is below the threshold, so the first top-up is ordered at once. "}
              {most_cents !== null && `Automatic top-ups cost at most ${money(most_cents, currency)} in a month (UTC).`}
            </>
          )}
          onClose={() => setAsking(null)}
          onConfirm={async () => {
            queryClient.setQueryData(autoTopupQuery.queryKey, await call("PUT /api/v1/billing/auto-topup", { body }));
            await stale("payments", "profile");
          }}
        />
      )}
    </>
  );
}

function StatusNote({ settings }: { settings: Settings }) {
  const { status, paused_reason, ordered_this_month_cents } = settings;
  if (status === "off") return <p className="text-muted">Off. Enabled, they charge your saved card each time.</p>;
  if (paused_reason !== null)
    return (
      <Callout tone="bad" icon="warning">
        Paused. {REASONS[paused_reason]} Buy tokens to save a card, then resume.
      </Callout>
    );
  const ordered = `${money(ordered_this_month_cents, "usd")} ordered this month.`;
  if (status === "cap_reached")
    return (
      <Callout tone="warn" icon="warning">
        {ordered} The next top-up would exceed the month's cap.
      </Callout>
    );
  return <p>On. {ordered}</p>;
}
