import { useQuery } from "@tanstack/react-query";
import { call } from "../api/client.ts";
import { OperatorKeys } from "../parts/operator-keys.tsx";
import { TestClock } from "../parts/system-panel.tsx";
import { Card, PageHeader } from "../ui/basics.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

/** The operators' keys, and the settings of the service. */
export function OperatorSettingsPage() {
  return (
    <>
      <PageHeader title="Settings" />
      <div className="space-y-4">
        <TestClock />
        <OperatorKeys />
        <Models />
      </div>
    </>
  );
}

function Models() {
  const models = useQuery({
    queryKey: ["operator", "models"],
    queryFn: async () => (await call("GET /api/v1/admin/models")).models,
  });
  return (
    <Card title="Models" note="The models on offer.">
      {models.isError && <ProblemNotice error={models.error} />}
      <p className="wrap-anywhere">{(models.data ?? []).map(({ id }) => id).join(", ")}</p>
    </Card>
  );
}
