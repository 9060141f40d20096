import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Answer, addressOf, call, download } from "../api/client.ts";
import { listFrom } from "../api/queries.ts";
import { day, instant, number, words } from "../format.ts";
import { failure, starterName } from "../run-words.ts";
import { Badge, Button, Card, Facts, PageHeader, Skeleton } from "../ui/basics.tsx";
import { type Column, ListCard, When } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { Change } from "./balance-actions.tsx";
import { RunStatus, userQuery, WithReason } from "./operator-panels.tsx";
import { usePlanName } from "./plan-name.ts";
import { Grant, UserActions } from "./user-actions.tsx";

interface Props {
  id: string;
}

/** One user as the operator sees them. */
export function OneUser({ id }: Props) {
  const [granting, setGranting] = useState(false);
  const user = useQuery(userQuery(id));
  const planName = usePlanName();
  const back = (
    <Link to="/operator/users" className="link">
      All users
    </Link>
  );
  if (user.isError) {
    return (
      <>
        {back}
        <ProblemNotice error={user.error} />
      </>
    );
  }
  if (user.data === undefined) return <Skeleton />;
  const { email, balance, plan, is_trial, suspended_at, created_at, operator_role } = user.data;
  return (
    <>
      {back}
      <PageHeader title={email}>
        <Export id={id} />
        <Button kind="primary" onClick={() => setGranting(true)}>
          Grant tokens
        </Button>
        <UserActions user={user.data} />
      </PageHeader>
      <div className="space-y-4">
        <Card title="Account">
          <Facts
            facts={[
              ["Id", <code key="id">{id}</code>],
              ["State", suspended_at === null ? "Active" : `Suspended since ${instant(suspended_at)}`],
              ["Member since", day(created_at)],
              ["Operator role", words(operator_role ?? "none")],
              ["Plan", plan === null ? (is_trial ? "Trial" : "None") : planName(plan)],
              ["Available tokens", number(balance.available)],
              ["Held tokens", number(balance.held)],
              ["Debt in tokens", number(balance.debt)],
            ]}
          />
        </Card>
        <Buckets id={id} available={balance.available} />
        <Keys id={id} />
        <Runs id={id} />
        <Ledger id={id} />
      </div>
      {granting && <Grant user={user.data} onClose={() => setGranting(false)} />}
    </>
  );
}

function Export({ id }: Props) {
  const save = useMutation({
    mutationFn: () =>
      download(addressOf("/api/v1/admin/users/{id}/export", { id }), `purser-user-${id}.zip`, {
        method: "POST",
      }),
    onSuccess: () => confirmSaved("Data downloaded"),
  });
  return (
    <>
      {save.error !== null && <ProblemNotice error={save.error} />}
      <Button icon="download" busy={save.isPending} onClick={() => save.mutate()}>
        Export data
      </Button>
    </>
  );
}

type Bucket = Answer<"GET /api/v1/admin/users/{id}/buckets">["buckets"][number];

function Buckets({ id, available }: Props & { available: number }) {
  const [closing, setClosing] = useState<Bucket | null>(null);
  const query = listFrom(["operator", "buckets", id], "GET /api/v1/admin/users/{id}/buckets", "buckets", {
    params: { id },
  });
  const columns: Column<Bucket>[] = [
    { title: "Source", cell: ({ source, note }) => <span className="wrap-anywhere">{note ?? words(source)}</span> },
    { title: "Left", numeric: true, cell: ({ remaining }) => number(remaining) },
    { title: "Granted", wide: true, cell: ({ granted_at }) => day(granted_at) },
    { title: "Expires", wide: true, cell: ({ expires_at }) => day(expires_at) },
    {
      title: "",
      numeric: true,
      cell: (bucket) => (
        <Button
          kind="quiet"
          onClick={() => setClosing(bucket)}
          aria-label={`Close the bucket of ${number(bucket.remaining)} tokens`}
        >
          Close
        </Button>
      ),
    },
  ];
  return (
    <>
      <ListCard
        title="Buckets"
        note="Open ones, used from the top."
        query={query}
        columns={columns}
        keyOf={(bucket) => bucket.id}
        empty="No open bucket."
      />
      {closing !== null && (
        <WithReason
          title={`Close the bucket of ${number(closing.remaining)} tokens?`}
          action="Close bucket"
          saved="Bucket closed"
          onClose={() => setClosing(null)}
          onConfirm={(reason) => {
            const params = { id, bucket_id: closing.id };
            const body = { reason };
            return call("POST /api/v1/admin/users/{id}/buckets/{bucket_id}/close", { params, body });
          }}
        >
          <Change
            facts={[
              ["Taken from this bucket", closing.remaining - closing.held],
              ["Still held by running calls", closing.held],
              ["Available now", available],
              ["Available afterwards", available - (closing.remaining - closing.held)],
            ]}
          />
          <p>This cannot be undone.</p>
        </WithReason>
      )}
    </>
  );
}

type Key = Answer<"GET /api/v1/admin/users/{id}/api-keys">["api_keys"][number];

function Keys({ id }: Props) {
  const [revoking, setRevoking] = useState<Key | null>(null);
  const query = listFrom(["operator", "api-keys", id], "GET /api/v1/admin/users/{id}/api-keys", "api_keys", {
    params: { id },
  });
  const columns: Column<Key>[] = [
    {
      title: "Key",
      cell: (key) => (
        <>
          <span className="wrap-anywhere">{key.name}</span>{" "}
          {key.revoked_at !== null && <Badge tone="bad">revoked</Badge>}
          <code className="block text-sm text-muted">
            {key.prefix}…{key.last_four}
          </code>
        </>
      ),
    },
    { title: "Spent", wide: true, numeric: true, cell: ({ spent_tokens }) => number(spent_tokens) },
    {
      title: "",
      numeric: true,
      cell: (key) =>
        key.revoked_at === null && (
          <Button kind="quiet" onClick={() => setRevoking(key)} aria-label={`Revoke API key ${key.name}`}>
            Revoke
          </Button>
        ),
    },
  ];
  return (
    <>
      <ListCard title="API keys" query={query} columns={columns} keyOf={(key) => key.id} empty="No API keys." />
      {revoking !== null && (
        <WithReason
          title={`Revoke ${revoking.name}?`}
          action="Revoke API key"
          saved="API key revoked"
          onClose={() => setRevoking(null)}
          onConfirm={(reason) => {
            const params = { id, key_id: revoking.id };
            const query = { reason };
            return call("DELETE /api/v1/admin/users/{id}/api-keys/{key_id}", { params, query });
          }}
        >
          Requests with this key fail within a second. This cannot be undone.
        </WithReason>
      )}
    </>
  );
}

type Run = Answer<"GET /api/v1/admin/users/{id}/runs">["runs"][number];
const RUN_COLUMNS: Column<Run>[] = [
  {
    title: "When",
    cell: ({ id, user_id, queued_at }) => (
      <Link to="/operator/runs" search={{ user_id, run: id }} className="link">
        <When at={queued_at} />
      </Link>
    ),
  },
  { title: "Agent", cell: ({ agent_name }) => <span className="wrap-anywhere">{agent_name ?? "Deleted"}</span> },
  { title: "Started by", wide: true, cell: (run) => (run.trigger === "manual" ? "User" : starterName(run)) },
  {
    title: "Status",
    cell: ({ status, has_errors, error }) => (
      <>
        <RunStatus status={status} has_errors={has_errors} />
        {error !== null && <span className="block text-sm text-bad">{words(failure(error.code))}</span>}
      </>
    ),
  },
  { title: "Tokens", wide: true, numeric: true, cell: ({ usage }) => number(usage.cost_tokens) },
];

function Runs({ id }: Props) {
  const query = listFrom(["operator", "user-runs", id], "GET /api/v1/admin/users/{id}/runs", "runs", {
    params: { id },
  });
  return (
    <ListCard
      title="Runs"
      note="Newest first."
      query={query}
      columns={RUN_COLUMNS}
      keyOf={(run) => run.id}
      empty="No runs."
    />
  );
}

type Transaction = Answer<"GET /api/v1/admin/users/{id}/transactions">["transactions"][number];
const LEDGER_COLUMNS: Column<Transaction>[] = [
  { title: "When", cell: ({ created_at }) => <When at={created_at} /> },
  {
    title: "Type",
    cell: ({ type, model, description }) => (
      <>
        {words(type)}
        <span className="block text-sm wrap-anywhere text-muted">{model ?? description}</span>
      </>
    ),
  },
  { title: "Tokens", numeric: true, cell: ({ amount }) => number(amount).replace("-", "−") },
  { title: "Balance", wide: true, numeric: true, cell: ({ balance_after }) => number(balance_after) },
];

function Ledger({ id }: Props) {
  const query = listFrom(
    ["operator", "transactions", id],
    "GET /api/v1/admin/users/{id}/transactions",
    "transactions",
    { params: { id } },
  );
  return (
    <ListCard
      title="Ledger"
      note="Newest first."
      query={query}
      columns={LEDGER_COLUMNS}
      keyOf={(entry) => entry.id}
      empty="No entries."
    />
  );
}
