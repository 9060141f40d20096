import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { queryClient } from "../api/queries.ts";
import { day, number } from "../format.ts";
import { NewUser, UserActs } from "../parts/operator-acts.tsx";
import { useAct } from "../ui/act.ts";
import { Badge, Button, Callout, Card, Empty, PageHeader, Skeleton } from "../ui/basics.tsx";
import { TextField } from "../ui/fields.tsx";
import { Logo } from "../ui/icons.tsx";
import { type Column, Table } from "../ui/list.tsx";
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
  const users = useInfiniteQuery({
    queryKey: ["operator", "users"],
    queryFn: ({ pageParam }) =>
      call("GET /api/v1/admin/users", {
        key: api_key,
        query: { limit: 25, ...(pageParam === null ? {} : { cursor: pageParam }) },
      }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  });
  const columns: Column<User>[] = [
    {
      title: "User",
      cell: (user) => (
        <>
          <span className="font-medium">{user.email}</span>{" "}
          {user.suspended_at !== null && <Badge tone="bad">suspended</Badge>}{" "}
          {user.is_trial && <Badge tone="accent">trial</Badge>}
          <code className="block text-xs text-muted">{user.id}</code>
        </>
      ),
    },
    { title: "Balance", numeric: true, cell: (user) => number(user.token_balance) },
    { title: "Plan", wide: true, cell: (user) => user.plan ?? <span className="text-muted">none</span> },
    { title: "Since", wide: true, cell: (user) => day(user.created_at) },
    { title: "", numeric: true, cell: (user) => <UserActs user={user} api_key={api_key} /> },
  ];
  const rows = users.data?.pages.flatMap((page) => page.users) ?? [];
  return (
    <>
      <PageHeader title="Operator">
        <Button kind="primary" icon="plus" onClick={() => setMaking(true)}>
          New user
        </Button>
      </PageHeader>
      <div className="space-y-4">
        <Audit api_key={api_key} />
        <Card title="Users" flush>
          {users.isPending && <Skeleton />}
          {users.isError && <ProblemNotice error={users.error} onRetry={() => void users.refetch()} />}
          {users.isSuccess && rows.length === 0 && (
            <Empty icon="person" title="No users yet">
              People sign up themselves, or you make them here.
            </Empty>
          )}
          {rows.length > 0 && <Table label="Users" columns={columns} rows={rows} keyOf={(user) => user.id} />}
          {users.hasNextPage && (
            <div className="border-t border-line p-2 text-center">
              <Button kind="quiet" busy={users.isFetchingNextPage} onClick={() => void users.fetchNextPage()}>
                Show more
              </Button>
            </div>
          )}
        </Card>
      </div>
      {making && <NewUser api_key={api_key} onClose={() => setMaking(false)} />}
    </>
  );
}

function Audit({ api_key }: { api_key: string }) {
  const audit = useMutation({ mutationFn: () => call("GET /api/v1/admin/audit", { key: api_key }) });
  const checked = Object.values(audit.data?.checked ?? {}).reduce((sum, part) => sum + part, 0);
  return (
    <Card
      title="Audit"
      note="Recomputes every balance from the ledger."
      actions={
        <Button busy={audit.isPending} onClick={() => audit.mutate()}>
          Audit now
        </Button>
      }
    >
      {audit.isError && <ProblemNotice error={audit.error} />}
      {audit.data?.ok === true && (
        <Callout tone="good" icon="check">
          Every invariant holds; {number(checked)} things were checked.
        </Callout>
      )}
      {audit.data?.ok === false && (
        <ul className="space-y-1.5">
          {audit.data.violations.map((violation) => (
            <li key={`${violation.invariant} ${violation.account_id} ${violation.detail}`} className="text-bad">
              <strong>{violation.invariant}</strong> {violation.account_id}: {violation.detail}
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
