import { Link, useSearch } from "@tanstack/react-router";
import type { Answer } from "../api/client.ts";
import { listFrom } from "../api/queries.ts";
import { chosenFilters, useFilterSetter } from "../filters.ts";
import { period, words } from "../format.ts";
import { ACT_WORDS } from "../operator-words.ts";
import { UserLink, UserPicker } from "../parts/operator-panels.tsx";
import { Button, PageHeader } from "../ui/basics.tsx";
import { useCsvDownload } from "../ui/csv-download.tsx";
import { DayField } from "../ui/fields.tsx";
import { type Column, ListCard, When } from "../ui/list.tsx";
import { SelectField } from "../ui/select.tsx";

type Act = Answer<"GET /api/v1/admin/acts">["acts"][number];

const ACT_OPTIONS = [["", "All"], ...Object.entries(ACT_WORDS).map(([what, name]) => [what, name] as const)] as const;

/** Who acted. The name leads to the acts of this operator. */
function Operator({ who: { key_id, user_id, name } }: Act) {
  const id = key_id ?? user_id;
  if (id === null) return name;
  return (
    <Link
      from="/operator/acts"
      to="."
      search={(old) => ({ ...old, operator_id: id })}
      replace
      className="link break-all"
      activeProps={{ "aria-current": undefined }}
    >
      {name ?? `erased operator …${id.slice(-6)}`}
    </Link>
  );
}

const ACT_COLUMNS: Column<Act>[] = [
  { title: "When", cell: ({ at }) => <When at={at} /> },
  { title: "Operator", wide: true, cell: Operator },
  { title: "Act", cell: ({ what }) => ACT_WORDS[what] },
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
      <UserLink id={user_id} email={user_email} />
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
  const { what, user_id, operator_id, from, to } = useSearch({ from: "/signed-in/operator/acts" });
  const set = useFilterSetter();
  const filters = chosenFilters({ what, user_id, operator_id, ...period(from, to) });
  const query = listFrom(["operator", "acts", filters], "GET /api/v1/admin/acts", "acts", { query: filters });
  const csv = useCsvDownload("/api/v1/admin/acts", { filters, of: "acts", saved: "Acts downloaded" });
  return (
    <>
      <PageHeader title="Acts" note="Every change that an operator made. The audit verifies the log." />
      <ListCard
        title="Log of acts"
        query={query}
        columns={ACT_COLUMNS}
        keyOf={({ id }) => id}
        empty={
          Object.keys(filters).length > 0 ? "No acts match these filters." : "No operator has changed anything yet."
        }
      >
        <div className="grid grid-cols-2 items-end gap-3 px-4 pb-3 sm:flex sm:flex-wrap">
          <SelectField
            label="Act"
            className="w-full sm:w-56"
            value={what ?? ""}
            options={ACT_OPTIONS}
            onValue={set("what")}
          />
          <UserPicker className="w-full sm:w-48" value={user_id ?? ""} onValue={set("user_id")} />
          <DayField label="From" value={from ?? ""} onValue={set("from")} />
          <DayField label="To" value={to ?? ""} onValue={set("to")} />
          {operator_id !== undefined && (
            <Button icon="close" onClick={() => set("operator_id")("")}>
              Show all operators
            </Button>
          )}
          {csv.button}
        </div>
        {csv.problem}
      </ListCard>
    </>
  );
}
