import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { paymentQuery } from "../api/billing.ts";
import { profileQuery } from "../api/queries.ts";
import { day, money, number } from "../format.ts";
import { PURPOSES, stateOf } from "../parts/payments.tsx";
import { Button, buttonClass, Card, Facts, PageHeader, Skeleton } from "../ui/basics.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

/** One payment as a page to print or to save, and the payment provider's own receipt. */
export function ReceiptPage() {
  const { id } = useParams({ from: "/signed-in/billing/receipts/$id" });
  const { data: profile } = useSuspenseQuery(profileQuery);
  const { data: payment, error, refetch } = useQuery(paymentQuery(id));
  if (payment === undefined)
    return error === null ? <Skeleton lines={6} /> : <ProblemNotice error={error} onRetry={() => void refetch()} />;
  const { plan_name, purpose, period_start, tokens, paid_cents, refunded_cents, currency, receipt_url } = payment;
  const [state] = stateOf(payment);
  const what = [plan_name === null ? PURPOSES[purpose] : `${PURPOSES[purpose]}: ${plan_name}`];
  if (period_start !== null) what.push(`period from ${day(period_start)}`);
  return (
    <div className="max-w-3xl">
      <PageHeader title="Receipt" note={`${money(paid_cents, currency)}, ${day(payment.created_at)}`}>
        <span className="flex flex-wrap gap-2 print:hidden">
          <Link to="/billing" search={{ tab: "purchases" }} className={buttonClass("quiet")}>
            All payments
          </Link>
          {receipt_url !== null && (
            <a href={receipt_url} target="_blank" rel="noreferrer" className={buttonClass()}>
              Receipt of the payment provider
            </a>
          )}
          <Button kind="primary" onClick={() => print()}>
            Print receipt
          </Button>
        </span>
      </PageHeader>
      <Card>
        <Facts
          facts={[
            ["Number", <code key="number">{payment.id}</code>],
            ["Date", day(payment.created_at)],
            ["Account", profile.email],
            ["Service", location.origin],
            ["State", payment.sandbox === true ? `${state}, simulated` : state],
          ]}
        />
        <table className="mt-5 w-full">
          <caption className="sr-only">What was paid</caption>
          <thead>
            <tr className="border-b border-line text-left text-xs text-muted">
              <th scope="col" className="py-1.5 font-medium">
                What
              </th>
              <th scope="col" className="py-1.5 text-right font-medium">
                Tokens
              </th>
              <th scope="col" className="py-1.5 text-right font-medium">
                Amount
              </th>
            </tr>
          </thead>
          <tbody>
            <tr>
              <td className="py-2 wrap-anywhere">{what.join(", ")}</td>
              <td className="py-2 text-right">{number(tokens)}</td>
              <td className="py-2 text-right">{money(paid_cents, currency)}</td>
            </tr>
            {refunded_cents > 0 && (
              <tr>
                <td className="py-2">Refunded</td>
                <td />
                <td className="py-2 text-right">−{money(refunded_cents, currency)}</td>
              </tr>
            )}
          </tbody>
          <tfoot className="border-t border-line">
            <tr className="font-semibold">
              <td className="py-2" colSpan={2}>
                Paid
              </td>
              <td className="py-2 text-right">{money(paid_cents - refunded_cents, currency)}</td>
            </tr>
          </tfoot>
        </table>
        <p className="mt-4 text-sm text-muted">
          {payment.sandbox === true && "Payments are simulated here: no money was moved. "}
          This receipt says what was paid. It shows no tax, because this service does not compute any.
        </p>
      </Card>
    </div>
  );
}
