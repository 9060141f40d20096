import { Link } from "@tanstack/react-router";
import { type Answer, call } from "../api/client.ts";
import { listOf } from "../api/queries.ts";
import { instant, words } from "../format.ts";
import { PageHeader } from "../ui/basics.tsx";
import { type Column, ListCard } from "../ui/list.tsx";

type Act = Answer<"GET /api/v1/admin/acts">["acts"][number];
const ACT_COLUMNS: Column<Act>[] = [
  { title: "When", cell: ({ at }) => instant(at) },
  { title: "Operator", wide: true, cell: ({ who }) => <span className="break-all">{who.name}</span> },
  { title: "Act", cell: ({ what }) => what },
  { title: "Concerns", cell: (act) => <Concerned act={act} /> },
  { title: "Reason", cell: ({ reason }) => <span className="wrap-anywhere">{reason ?? ""}</span> },
];

/** The user whom an act concerns, otherwise its target: an operator key or the service. */
function Concerned({ act: { user_id, user_email, target } }: { act: Act }) {
  if (user_id === null) {
    return (
      <>
        {words(target.type)} {target.id !== null && <code className="block text-xs break-all">{target.id}</code>}
      </>
    );
  }
  if (user_email === null) {
    return (
      <>
        erased user <code className="block text-xs break-all">{user_id}</code>
      </>
    );
  }
  return (
    <>
      <Link to="/operator/users/$id" params={{ id: user_id }} className="link break-all">
        {user_email}
      </Link>
      {target.type !== "user" && target.id !== user_id && (
        <span className="block text-sm text-muted max-md:hidden">
          {words(target.type)} <code className="text-xs break-all">{target.id}</code>
        </span>
      )}
    </>
  );
}

/** The log of operators' acts. */
export function OperatorActsPage() {
  const query = listOf(["operator", "acts"], async (page, signal) => {
    const { acts, next_cursor } = await call("GET /api/v1/admin/acts", { query: page, signal });
    return { rows: acts, next_cursor };
  });
  return (
    <>
      <PageHeader title="Acts" note="Every change that an operator made. The audit verifies the log." />
      <ListCard
        title="Log of acts"
        query={query}
        columns={ACT_COLUMNS}
        keyOf={({ id }) => id}
        empty="No operator has changed anything yet."
      />
    </>
  );
}
