import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { type Change, type Preview, previewQuery } from "../api/billing.ts";
import { day, money, number } from "../format.ts";
import { Skeleton } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

interface ConfirmChangeProps {
  title: string;
  action: string;
  saved?: string;
  kind?: "danger" | "primary";
  change: Change;
  /** Amounts that follow, in words. */
  later: (preview: Preview) => ReactNode;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
}

/** Says what a change costs before it is made. The service computes each amount. */
export function ConfirmChange({ change, later, ...confirm }: ConfirmChangeProps) {
  const { data, error, isError } = useQuery(previewQuery(change));
  return (
    <Confirm kind="primary" {...confirm} disabled={data === undefined}>
      {data !== undefined ? (
        <>
          <p>
            <strong className="text-ink">Due now: {dueNow(data)}.</strong>
          </p>
          <p className="mt-1">{later(data)}</p>
        </>
      ) : isError ? (
        <ProblemNotice error={error} />
      ) : (
        <Skeleton lines={2} />
      )}
    </Confirm>
  );
}

function dueNow({ due_now_cents, tokens, currency, change }: Preview): string {
  if (due_now_cents === 0 && tokens === 0) return "nothing";
  const rest = change === "upgrade" ? " for the rest of this period" : "";
  const amount = due_now_cents === 0 ? "nothing" : money(due_now_cents, currency);
  return `${amount}${rest}${tokens === 0 ? "" : `, for ${number(tokens)} tokens`}`;
}

/** The payment of the next period of a plan. */
export function nextPayment({ next, currency }: Preview, interval: string): string {
  if (next === null) return "";
  const price = `${money(next.amount_cents, currency)} per ${interval}`;
  return next.at === null ? `Then ${price}, from the payment on.` : `From ${day(next.at)}: ${price}.`;
}
