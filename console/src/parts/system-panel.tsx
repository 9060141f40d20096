import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { queryClient, stale } from "../api/queries.ts";
import { ago, instant, number } from "../format.ts";
import { OWN_ZONE, zoneName } from "../schedule-words.ts";
import { Button, Callout, Card } from "../ui/basics.tsx";
import { FormErrorProvider, onSubmit, TextField } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";

/** The operator's panels for the whole service: audit, test clock and overage invoices. */

/** `last`: how the last one ended. */
export function Audit({ last }: { last: Answer<"GET /api/v1/admin/overview">["audit"] }) {
  const audit = useMutation({ mutationFn: () => call("GET /api/v1/admin/audit") });
  const checked = Object.entries(audit.data?.checked ?? {});
  return (
    <Card
      title="Audit"
      note="Recomputes every balance from the ledger."
      actions={
        <Button busy={audit.isPending} onClick={() => audit.mutate()}>
          Run audit
        </Button>
      }
    >
      <div className="space-y-2" aria-live="polite">
        {audit.isError && <ProblemNotice error={audit.error} />}
        {audit.isIdle && <LastAudit last={last} />}
        {audit.data?.ok === true && (
          <Callout tone="good" icon="check">
            All balances match the ledger.
          </Callout>
        )}
        {audit.data?.ok === false && (
          <Callout tone="bad" icon="warning">
            <ul className="space-y-1.5">
              {audit.data.violations.map(({ invariant, account_id, detail }) => (
                <li key={`${invariant} ${account_id} ${detail}`} className="wrap-anywhere">
                  <strong>{invariant}</strong> {account_id}: {detail}
                </li>
              ))}
            </ul>
          </Callout>
        )}
        {checked.length > 0 && (
          <p className="text-sm text-muted">
            Checked: {checked.map(([what, amount]) => `${number(amount)} ${what.replaceAll("_", " ")}`).join(", ")}.
          </p>
        )}
      </div>
    </Card>
  );
}

function LastAudit({ last }: Parameters<typeof Audit>[0]) {
  if (last === null) return <p className="text-muted">No audit was made yet.</p>;
  if (last.problem === null) {
    return (
      <p>
        The last audit found the ledger in order {ago(last.ended_at)}, {instant(last.ended_at)}.
      </p>
    );
  }
  return (
    <Callout tone="bad" icon="warning">
      The last audit found that the ledger is not in order {ago(last.ended_at)}. {last.problem}. Run it again to see
      all.
    </Callout>
  );
}

const STEPS = [
  ["+1 hour", 3_600_000],
  ["+1 day", 86_400_000],
  ["+30 days", 30 * 86_400_000],
] as const;

/** Sets the test clock. Shown only if the service has one. */
export function TestClock() {
  const query = { queryKey: ["operator", "clock"], queryFn: () => call("GET /api/v1/admin/clock") };
  const clock = useQuery({ ...query, retry: false });
  const [to, setTo] = useState("");
  const set = useMutation({
    mutationFn: (target: string) => call("PUT /api/v1/admin/clock", { body: { now: target } }),
    onSuccess: async (moved) => {
      queryClient.setQueryData(query.queryKey, moved);
      setTo("");
      confirmSaved("Clock set");
      await stale("operator");
    },
  });
  if (clock.data === undefined) return null;
  const { now } = clock.data;
  return (
    <Card
      title="Test clock"
      note="The clock moves only when you set it. The service then does everything that falls due."
    >
      <div className="space-y-4">
        <p>
          Now: <strong>{instant(now)}</strong> <span className="text-muted">({now})</span>
        </p>
        <FormErrorProvider value={set.error}>
          <form
            onSubmit={onSubmit(() => set.mutate(new Date(to).toISOString()))}
            className="flex flex-wrap items-end gap-2"
          >
            <TextField
              label={`New time (${zoneName(OWN_ZONE)})`}
              param="now"
              type="datetime-local"
              required
              value={to}
              onValue={setTo}
            />
            <Button type="submit" busy={set.isPending}>
              Set clock
            </Button>
            {STEPS.map(([name, ms]) => (
              <Button
                key={name}
                busy={set.isPending}
                onClick={() => set.mutate(new Date(Date.parse(now) + ms).toISOString())}
              >
                {name}
              </Button>
            ))}
          </form>
        </FormErrorProvider>
        {set.error !== null && <ProblemNotice error={set.error} />}
      </div>
    </Card>
  );
}
