import { useMutation } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { listOf, queryClient } from "../api/queries.ts";
import { day, number } from "../format.ts";
import { OperatorKeys } from "../parts/operator-keys.tsx";
import { ActLog, AllPurchases, FailedRuns, Margins, Models } from "../parts/operator-panels.tsx";
import { OneUser } from "../parts/operator-user.tsx";
import { Audit, Invoices, TestClock } from "../parts/system-panel.tsx";
import { NewUser, UserActions } from "../parts/user-actions.tsx";
import { Badge, Button, Card, Empty, PageHeader } from "../ui/basics.tsx";
import { onSubmit, TextField } from "../ui/fields.tsx";
import { Logo } from "../ui/icons.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { SavedNotice } from "../ui/saved.tsx";

type User = Answer<"GET /api/v1/admin/users/{id}">;

/** The operator's page. Only the page's memory holds the operator key. */
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
      <main tabIndex={-1} className="outline-none">
        {key === null ? <KeyForm onKey={setKey} /> : <System api_key={key} />}
      </main>
      <SavedNotice />
    </div>
  );
}

function KeyForm({ onKey }: { onKey: (key: string) => void }) {
  const [key, setKey] = useState("");
  const check = useMutation({
    mutationFn: () => call("GET /api/v1/admin/users", { key: key.trim(), query: { limit: 1 } }),
    onSuccess: () => onKey(key.trim()),
  });
  return (
    <div className="mx-auto max-w-md">
      <PageHeader title="Operator" note="Users, grants and the audit of every balance." />
      <Card>
        <form onSubmit={onSubmit(check.mutate)} className="space-y-4">
          <TextField
            label="Operator key"
            type="password"
            autoComplete="off"
            required
            value={key}
            onValue={setKey}
            hint="PURSER_ADMIN_KEY or a named operator key. Only this page's memory holds it."
          />
          {check.error !== null && <ProblemNotice error={check.error} />}
          <Button type="submit" kind="primary" busy={check.isPending} className="w-full">
            Enter operator page
          </Button>
        </form>
      </Card>
    </div>
  );
}

function System({ api_key }: { api_key: string }) {
  const [creating, setCreating] = useState(false);
  const { user } = useSearch({ from: "/operator" });
  if (user !== undefined) return <OneUser key={user} id={user} api_key={api_key} />;
  return (
    <>
      <PageHeader title="Operator">
        <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>
          New user
        </Button>
      </PageHeader>
      <div className="space-y-4">
        <Users api_key={api_key} />
        <TestClock api_key={api_key} />
        <Audit api_key={api_key} />
        <Margins api_key={api_key} />
        <FailedRuns api_key={api_key} />
        <AllPurchases api_key={api_key} />
        <Invoices api_key={api_key} />
        <OperatorKeys api_key={api_key} />
        <ActLog api_key={api_key} />
        <Models api_key={api_key} />
      </div>
      {creating && <NewUser api_key={api_key} onClose={() => setCreating(false)} />}
    </>
  );
}

function Users({ api_key }: { api_key: string }) {
  const { search = "" } = useSearch({ from: "/operator" });
  const navigate = useNavigate({ from: "/operator" });
  const [text, setText] = useState(search); // The address follows later, and would move the cursor.
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
          <Link to="/operator" search={{ user: user.id }} className="link font-medium break-all">
            {user.email}
          </Link>{" "}
          {user.suspended_at !== null && <Badge tone="bad">suspended</Badge>}{" "}
          {user.is_trial && <Badge tone="accent">trial</Badge>}
          <code className="block text-xs text-muted max-md:hidden">{user.id}</code>
        </>
      ),
    },
    { title: "Balance", numeric: true, cell: (user) => number(user.token_balance) },
    { title: "Plan", wide: true, cell: (user) => user.plan ?? <span className="text-muted">none</span> },
    { title: "Since", wide: true, cell: (user) => day(user.created_at) },
    { title: "", numeric: true, cell: (user) => <UserActions user={user} api_key={api_key} /> },
  ];
  const find = (typed: string) => {
    setText(typed);
    void navigate({ search: typed === "" ? {} : { search: typed }, replace: true, resetScroll: false });
  };
  return (
    <Card
      title="Users"
      flush
      actions={
        <input
          type="search"
          aria-label="Find users"
          placeholder="E-mail or id"
          className="control max-w-64"
          value={text}
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
