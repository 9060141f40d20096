import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { plansQuery, profileQuery } from "../api/queries.ts";
import { dollars, number } from "../format.ts";
import { BillingOverview } from "../parts/billing-overview.tsx";
import { EndUsersTab } from "../parts/end-users.tsx";
import { LedgerTab } from "../parts/ledger.tsx";
import { OverageTab } from "../parts/overage.tsx";
import { PaymentsTab } from "../parts/payments.tsx";
import { PlansTab } from "../parts/plans.tsx";
import { TopUp } from "../parts/top-up.tsx";
import { Button, PageHeader, Tabs } from "../ui/basics.tsx";

const TABS = [
  ["balance", "Overview"],
  ["ledger", "Ledger"],
  ["purchases", "Payments"],
  ["plans", "Plans"],
  ["overage", "Overage"],
  ["end_users", "End users"],
] as const;

/** Balance, ledger, payments, plans, overage and the budgets of end users. */
export function BillingPage() {
  const { tab = "balance", top_up } = useSearch({ from: "/signed-in/billing" });
  const { data: profile } = useSuspenseQuery(profileQuery);
  const { data: offer } = useQuery(plansQuery);
  const navigate = useNavigate({ from: "/billing" });
  const showTopUp = (open: boolean) =>
    void navigate({ search: (old) => ({ ...old, top_up: open || undefined }) as never, replace: !open });
  return (
    <>
      <PageHeader
        title="Billing"
        note={`${number(profile.token_balance)} tokens, worth ${dollars(profile.token_balance)} at the standard rate`}
      >
        <Button
          kind="primary"
          icon="plus"
          disabled={offer?.payments === "none"}
          title={offer?.payments === "none" ? "This service has no payments. Ask its operator for tokens." : undefined}
          onClick={() => showTopUp(true)}
        >
          Buy tokens
        </Button>
      </PageHeader>
      <Tabs
        label="Parts of billing"
        tabs={TABS.map(([name, title]) => ({
          name: title,
          chosen: tab === name,
          to: "/billing",
          search: name === "balance" ? {} : { tab: name },
        }))}
      />
      {tab === "balance" && <BillingOverview />}
      {tab === "ledger" && <LedgerTab />}
      {tab === "plans" && <PlansTab />}
      {tab === "overage" && <OverageTab />}
      {tab === "purchases" && <PaymentsTab />}
      {tab === "end_users" && <EndUsersTab />}
      {top_up === true && <TopUp onClose={() => showTopUp(false)} />}
    </>
  );
}
