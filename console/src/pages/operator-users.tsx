import { Link, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import type { Answer } from "../api/client.ts";
import { listFrom } from "../api/queries.ts";
import { useFilterSetter } from "../filters.ts";
import { day, number } from "../format.ts";
import { OneUser } from "../parts/operator-user.tsx";
import { usePlanName } from "../parts/plan-name.ts";
import { NewUser, UserActions } from "../parts/user-actions.tsx";
import { Badge, Button, Card, Empty, PageHeader } from "../ui/basics.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { WaitingField } from "../ui/waiting-field.tsx";

type User = Answer<"GET /api/v1/admin/users/{id}">;

/** All users. */
export function OperatorUsersPage() {
  const [creating, setCreating] = useState(false);
  return (
    <>
      <PageHeader title="Users">
        <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>
          New user
        </Button>
      </PageHeader>
      <Users />
      {creating && <NewUser onClose={() => setCreating(false)} />}
    </>
  );
}

/** One user. */
export function OperatorUserPage() {
  const { id } = useParams({ from: "/signed-in/operator/users/$id" });
  return <OneUser key={id} id={id} />;
}

function Users() {
  const { search = "" } = useSearch({ from: "/signed-in/operator/users" });
  const set = useFilterSetter();
  const planName = usePlanName();
  const query = listFrom(["operator", "users", search], "GET /api/v1/admin/users", "users", {
    query: search === "" ? {} : { search },
  });
  const columns: Column<User>[] = [
    {
      title: "User",
      cell: (user) => (
        <>
          <Link to="/operator/users/$id" params={{ id: user.id }} className="link font-medium break-all">
            {user.email}
          </Link>{" "}
          {user.suspended_at !== null && <Badge tone="bad">suspended</Badge>}{" "}
          {user.is_trial && <Badge tone="accent">trial</Badge>}
          <code className="block text-xs text-muted max-md:hidden">{user.id}</code>
        </>
      ),
    },
    { title: "Balance", numeric: true, cell: (user) => number(user.token_balance) },
    {
      title: "Plan",
      wide: true,
      cell: ({ plan }) => (plan === null ? <span className="text-muted">None</span> : planName(plan)),
    },
    { title: "Since", wide: true, cell: (user) => day(user.created_at) },
    { title: "", numeric: true, cell: (user) => <UserActions user={user} /> },
  ];
  return (
    <Card flush>
      <div className="border-b border-line px-4 py-3">
        <WaitingField
          label="Find users"
          type="search"
          placeholder="E-mail or id"
          value={search}
          onValue={set("search")}
        />
      </div>
      <PagedTable
        label="Users"
        query={query}
        columns={columns}
        keyOf={(user) => user.id}
        empty={
          search === "" ? (
            <Empty icon="person" title="No users yet">
              People sign up, or you create users here.
            </Empty>
          ) : (
            <Empty icon="person" title="No users match this search">
              Search by a part of the e-mail address, or by the full id.
            </Empty>
          )
        }
      />
    </Card>
  );
}
