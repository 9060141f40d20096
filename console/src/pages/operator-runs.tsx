import { type Answer, call } from "../api/client.ts";
import { listOf } from "../api/queries.ts";
import { count, instant, words } from "../format.ts";
import { UserLink } from "../parts/operator-panels.tsx";
import { failure } from "../run-words.ts";
import { PageHeader, Status } from "../ui/basics.tsx";
import { type Column, ListCard } from "../ui/list.tsx";

type Run = Answer<"GET /api/v1/admin/runs">["runs"][number];

export function OperatorRunsPage() {
  const query = listOf(["operator", "runs"], async (page, signal) => {
    const sent = { ...page, has_errors: true };
    const { runs, next_cursor } = await call("GET /api/v1/admin/runs", { query: sent, signal });
    return { rows: runs, next_cursor };
  });
  const columns: Column<Run>[] = [
    { title: "When", cell: ({ queued_at }) => <span className="block min-w-20">{instant(queued_at)}</span> },
    { title: "Agent", cell: ({ agent_name }) => <span className="wrap-anywhere">{agent_name ?? "deleted"}</span> },
    { title: "User", wide: true, cell: ({ user_id }) => <UserLink id={user_id} /> },
    {
      title: "Status",
      cell: ({ status, has_errors, failed_steps, error }) => (
        <>
          <Status status={status} has_errors={has_errors} />
          <span className="block text-sm text-muted">
            {error === null ? count(failed_steps, "failed step") : words(failure(error.code))}
          </span>
        </>
      ),
    },
  ];
  return (
    <>
      <PageHeader title="Runs" note="Runs of all users that failed, or succeeded with failed steps, newest first." />
      <ListCard
        title="Runs with errors"
        query={query}
        columns={columns}
        keyOf={({ id }) => id}
        empty="No run has errors."
      />
    </>
  );
}
