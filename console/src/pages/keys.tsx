import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { call } from "../api/client.ts";
import { type ApiKey, keysQuery, stale } from "../api/queries.ts";
import { ago, count, day } from "../format.ts";
import { BudgetUse } from "../parts/budget.tsx";
import { EditKey, NewKey, NewKeyShown, rightsInWords } from "../parts/key-form.tsx";
import { Badge, Button, Card, Empty, PageHeader } from "../ui/basics.tsx";
import { Confirm, Dialog, FormEnd } from "../ui/dialog.tsx";
import { onSubmit } from "../ui/fields.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { SelectField } from "../ui/select.tsx";

type Open = { what: "new" } | { what: "edit" | "rotate" | "revoke"; key: ApiKey } | null;

const isOver = (key: ApiKey) =>
  key.revoked_at !== null || (key.expires_at !== null && Date.parse(key.expires_at) <= Date.now());

export function KeysPage() {
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  const columns: Column<ApiKey>[] = [
    {
      title: "Key",
      cell: (key) => (
        <>
          <span className="font-medium wrap-anywhere">{key.name}</span>{" "}
          {key.revoked_at !== null ? (
            <Badge tone="bad">revoked</Badge>
          ) : (
            isOver(key) && <Badge tone="warn">expired</Badge>
          )}
          <code className="block text-sm text-muted">
            {key.prefix}…{key.last_four}
          </code>
          <div className="mt-1 text-sm md:hidden">
            <Spent of={key} />
          </div>
        </>
      ),
    },
    { title: "Rights", wide: true, cell: (key) => rightsInWords(key.scopes) },
    {
      title: "Spent",
      wide: true,
      cell: (key) => <Spent of={key} />,
    },
    {
      title: "Last used",
      wide: true,
      cell: (key) =>
        key.last_used_at === null ? (
          <span className="text-muted">Never</span>
        ) : (
          <span className="whitespace-nowrap">{ago(key.last_used_at)}</span>
        ),
    },
    {
      title: "Expires",
      wide: true,
      cell: (key) => (key.expires_at === null ? <span className="text-muted">Never</span> : day(key.expires_at)),
    },
    {
      title: "",
      numeric: true,
      cell: (key) =>
        key.revoked_at === null && (
          <span className="flex justify-end gap-1 max-md:flex-col">
            <Button kind="quiet" onClick={() => setOpen({ what: "edit", key })} aria-label={`Edit ${key.name}`}>
              Edit
            </Button>
            {!isOver(key) && (
              <Button kind="quiet" onClick={() => setOpen({ what: "rotate", key })} aria-label={`Rotate ${key.name}`}>
                Rotate
              </Button>
            )}
            <Button kind="quiet" onClick={() => setOpen({ what: "revoke", key })} aria-label={`Revoke ${key.name}`}>
              Revoke
            </Button>
          </span>
        ),
    },
  ];
  const create = (
    <Button kind="primary" icon="plus" onClick={() => setOpen({ what: "new" })}>
      New key
    </Button>
  );
  return (
    <>
      <PageHeader title="API keys" note={<Purpose />}>
        {create}
      </PageHeader>
      <Card flush>
        <PagedTable
          label="API keys"
          query={keysQuery}
          columns={columns}
          keyOf={(key) => key.id}
          empty={
            <Empty icon="keys" title="No keys yet" action={create}>
              Create one for each program. Give it only the rights that it needs, and a budget if you like.
            </Empty>
          }
        />
      </Card>
      {open?.what === "new" && <NewKey onClose={close} />}
      {open?.what === "edit" && <EditKey api_key={open.key} onClose={close} />}
      {open?.what === "rotate" && <Rotate api_key={open.key} onClose={close} />}
      {open?.what === "revoke" && (
        <Confirm
          title={`Revoke ${open.key.name}?`}
          action="Revoke key"
          saved="API key revoked"
          onClose={close}
          onConfirm={async () => {
            await call("DELETE /api/v1/api-keys/{id}", { params: { id: open.key.id } });
            await stale("keys");
          }}
        >
          Requests with this key fail within a second. This cannot be undone.
        </Confirm>
      )}
    </>
  );
}

function Purpose() {
  return (
    <>
      For programs.{" "}
      <Link to="/developers/connect" className="underline">
        Connect
      </Link>{" "}
      shows the settings of each program.
    </>
  );
}

function Spent({ of: key }: { of: ApiKey }) {
  if (key.budget_tokens === null) return <>{count(key.spent_tokens, "token")}</>;
  return <BudgetUse name={key.name} budget_tokens={key.budget_tokens} used={key} />;
}

const GRACE = [
  ["0", "Immediately"],
  ["3600", "In an hour"],
  ["86400", "In a day"],
  ["604800", "In a week"],
] as const;

function Rotate({ api_key, onClose }: { api_key: ApiKey; onClose: () => void }) {
  const [grace, setGrace] = useState<(typeof GRACE)[number][0]>("3600");
  const [key, setKey] = useState<string | null>(null);
  const rotate = useMutation({
    mutationFn: () =>
      call("POST /api/v1/api-keys/{id}/rotate", {
        params: { id: api_key.id },
        body: { grace_seconds: Number(grace) },
      }),
    onSuccess: (rotated) => {
      setKey(rotated.key);
      return stale("keys");
    },
  });
  return (
    <Dialog title={`Rotate ${api_key.name}`} onClose={onClose}>
      {key !== null ? (
        <NewKeyShown api_key={key} onClose={onClose} />
      ) : (
        <form onSubmit={onSubmit(rotate.mutate)} className="space-y-4">
          <p className="text-muted">The key gets a new value. Its rights, budget and history stay.</p>
          <SelectField label="The old value ends" value={grace} options={GRACE} onValue={setGrace} />
          <FormEnd error={rotate.error} busy={rotate.isPending} onCancel={onClose}>
            Rotate key
          </FormEnd>
        </form>
      )}
    </Dialog>
  );
}
