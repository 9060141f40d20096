import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { listOf, queryClient } from "../api/queries.ts";
import { day, number } from "../format.ts";
import { NewUser, UserActs } from "../parts/operator-acts.tsx";
import { Audit, Invoices, TestClock } from "../parts/operator-house.tsx";
import { useAct } from "../ui/act.ts";
import { Badge, Button, Card, Empty, PageHeader } from "../ui/basics.tsx";
import { TextField } from "../ui/fields.tsx";
import { Logo } from "../ui/icons.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

type User = Answer<"GET /api/v1/admin/users/{id}">;

/** For who runs the service. The operator's key stays in this page's memory. */
export function OperatorPage() {
  const [key, setKey] = useState<string | null>(null);
  return (
    <div className="mx-auto max-w-6xl px-4 py-8">
      <header className="mb-6 flex items-center justify-between">
        <Link to="/" className="flex items-center gap-2.5 font-semibold">
          <Logo /> Purser
        </Link>
        {key !== null && (
          <Button
            onClick={() => {
              queryClient.removeQueries({ queryKey: ["operator"] });
              setKey(null);
            }}
          >
            Forget the key
          </Button>
        )}
      </header>
      <main>{key === null ? <KeyForm onKey={setKey} /> : <House api_key={key} />}</main>
    </div>
  );
}

function KeyForm({ onKey }: { onKey: (key: string) => void }) {
  const [key, setKey] = useState("");
  const { act, busy, error } = useAct();
  const enter = (event: FormEvent) => {
    event.preventDefault();
    void act(async () => {
      await call("GET /api/v1/admin/users", { key: key.trim(), query: { limit: 1 } });
      onKey(key.trim());
    });
  };
  return (
    <div className="mx-auto max-w-md">
      <PageHeader title="Operator" note="Users, grants and the audit of every balance." />
      <Card>
        <form onSubmit={enter} className="space-y-4">
          <TextField
            label="Operator's key"
            type="password"
            autoComplete="off"
            required
            value={key}
            onValue={setKey}
            hint="PURSER_ADMIN_KEY of this service. It stays in this page's memory."
          />
          {error !== null && <ProblemNotice error={error} />}
          <Button type="submit" kind="primary" busy={busy} className="w-full">
            Enter
          </Button>
        </form>
      </Card>
    </div>
  );
}

function House({ api_key }: { api_key: string }) {
  const [making, setMaking] = useState(false);
  return (
    <>
      <PageHeader title="Operator">
        <Button kind="primary" icon="plus" onClick={() => setMaking(true)}>
          New user
        </Button>
      </PageHeader>
      <div className="space-y-4">
        <Users api_key={api_key} />
        <TestClock api_key={api_key} />
        <Audit api_key={api_key} />
        <Invoices api_key={api_key} />
      </div>
      {making && <NewUser api_key={api_key} onClose={() => setMaking(false)} />}
    </>
  );
}

function Users({ api_key }: { api_key: string }) {
  const { search = "" } = useSearch({ from: "/operator" });
  const navigate = useNavigate({ from: "/operator" });
  const query = listOf(["operator", "users", search], async (page, signal) => {
    const sent = search === "" ? page : { ...page, search };
    const { users, next_cursor } = await call("GET /api/v1/admin/users", { key: api_key, query: sent, signal });
    return { rows: users, next_cursor };
  });
  const columns: Column<User>[] = [
    {
      title: "User",
      cell: (user) => (
        <>
          <span className="font-medium break-all">{user.email}</span>{" "}
          {user.suspended_at !== null && <Badge tone="bad">suspended</Badge>}{" "}
          {user.is_trial && <Badge tone="accent">trial</Badge>}
          <code className="block text-xs text-muted max-md:hidden">{user.id}</code>
        </>
      ),
    },
    { title: "Balance", numeric: true, cell: (user) => number(user.token_balance) },
    { title: "Plan", wide: true, cell: (user) => user.plan ?? <span className="text-muted">none</span> },
    { title: "Since", wide: true, cell: (user) => day(user.created_at) },
    { title: "", numeric: true, cell: (user) => <UserActs user={user} api_key={api_key} /> },
  ];
  const find = (text: string) =>
    void navigate({ search: text === "" ? {} : { search: text }, replace: true, resetScroll: false });
  return (
    <Card
      title="Users"
      flush
      actions={
        <input
          type="search"
          aria-label="Find users"
          placeholder="part of an address, or an id"
          className="control max-w-64"
          value={search}
          onChange={(event) => find(event.target.value)}
        />
      }
    >
      <PagedTable
        label="Users"
        query={query}
        columns={columns}
        keyOf={(user) => user.id}
        empty={
          search === "" ? (
            <Empty icon="person" title="No users yet">
              People sign up themselves, or you make them here.
            </Empty>
          ) : (
            <Empty icon="person" title="No user is like that">
              Search by a part of the address, or by the whole id.
            </Empty>
          )
        }
      />
    </Card>
  );
}
