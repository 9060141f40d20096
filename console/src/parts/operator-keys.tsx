import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { listFrom, stale } from "../api/queries.ts";
import { ago, day } from "../format.ts";
import { Badge, Button, Card } from "../ui/basics.tsx";
import { ShownOnce } from "../ui/copy.tsx";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { LAST_DAY, TextField } from "../ui/fields.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { SelectField } from "../ui/select.tsx";
import { WithReason } from "./operator-panels.tsx";

type OperatorKey = Answer<"GET /api/v1/admin/keys">["keys"][number];

export const ROLES = [
  ["read", "Read: everything, no changes"],
  ["support", "Support: also limits, suspend and resume"],
  ["admin", "Admin: everything"],
] as const;

const isOver = ({ revoked_at, expires_at }: OperatorKey) =>
  revoked_at !== null || (expires_at !== null && Date.parse(expires_at) <= Date.now());

/** The named operator keys. */
export function OperatorKeys() {
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<OperatorKey | null>(null);
  const query = listFrom(["operator", "keys"], "GET /api/v1/admin/keys", "keys");
  const columns: Column<OperatorKey>[] = [
    {
      title: "Key",
      cell: (key) => (
        <>
          <span className="font-medium wrap-anywhere">{key.name}</span>{" "}
          {key.revoked_at !== null && <Badge tone="bad">revoked</Badge>}
          {key.revoked_at === null && isOver(key) && <Badge tone="warn">expired</Badge>}
          <code className="block text-sm text-muted">…{key.last_four}</code>
        </>
      ),
    },
    { title: "Role", cell: ({ role }) => role },
    {
      title: "Last used",
      wide: true,
      cell: ({ last_used_at }) =>
        last_used_at === null ? <span className="text-muted">never</span> : ago(last_used_at),
    },
    {
      title: "Expires",
      wide: true,
      cell: ({ expires_at }) => (expires_at === null ? <span className="text-muted">never</span> : day(expires_at)),
    },
    {
      title: "",
      numeric: true,
      cell: (key) =>
        !isOver(key) && (
          <Button kind="quiet" onClick={() => setRevoking(key)} aria-label={`Revoke operator key ${key.name}`}>
            Revoke
          </Button>
        ),
    },
  ];
  return (
    <Card
      title="Operator keys"
      note="One for each operator and program: the log of acts names the key."
      actions={<Button onClick={() => setCreating(true)}>New operator key</Button>}
      flush
    >
      <PagedTable
        label="Operator keys"
        query={query}
        columns={columns}
        keyOf={({ id }) => id}
        empty={<p className="px-4 pb-5 text-muted">No named keys. Everyone uses PURSER_ADMIN_KEY.</p>}
      />
      {creating && <NewOperatorKey onClose={() => setCreating(false)} />}
      {revoking !== null && (
        <WithReason
          title={`Revoke ${revoking.name}?`}
          action="Revoke operator key"
          saved="Operator key revoked"
          onClose={() => setRevoking(null)}
          onConfirm={(reason) =>
            call("DELETE /api/v1/admin/keys/{id}", { params: { id: revoking.id }, query: { reason } })
          }
        >
          Requests with this key fail within a second. This cannot be undone.
        </WithReason>
      )}
    </Card>
  );
}

function NewOperatorKey({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<(typeof ROLES)[number][0]>("read");
  const [expires, setExpires] = useState("");
  const [key, setKey] = useState<string | null>(null);
  const save = useMutation({
    mutationFn: () => {
      const expiry = expires === "" ? {} : { expires_at: new Date(`${expires}T23:59:59`).toISOString() };
      return call("POST /api/v1/admin/keys", { body: { name, role, ...expiry } });
    },
    onSuccess: (created) => {
      setKey(created.key);
      return stale("operator");
    },
  });
  return (
    <Dialog title="New operator key" onClose={onClose}>
      {key !== null ? (
        <ShownOnce label="Operator key" text={key} onDone={onClose} />
      ) : (
        <DialogForm save={save} action="Create operator key" onCancel={onClose}>
          <TextField label="Name" param="name" required maxLength={100} value={name} onValue={setName} />
          <SelectField label="Role" param="role" value={role} options={ROLES} onValue={setRole} />
          <TextField
            label="Valid until"
            param="expires_at"
            type="date"
            max={LAST_DAY}
            value={expires}
            onValue={setExpires}
            hint="Empty: the key does not expire."
          />
        </DialogForm>
      )}
    </Dialog>
  );
}
