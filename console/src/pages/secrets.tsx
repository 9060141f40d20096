import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { type Secret, secretsQuery, secretUsesQuery, stale } from "../api/queries.ts";
import { ago, instant, words } from "../format.ts";
import { useAct } from "../ui/act.ts";
import { Badge, Button, buttonClass, Card, Empty, PageHeader } from "../ui/basics.tsx";
import { Confirm, Dialog, FormEnd } from "../ui/dialog.tsx";
import { AreaField, FormErrorProvider, TextField, toList } from "../ui/fields.tsx";
import { Icon } from "../ui/icons.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";

type Open = { what: "new" } | { what: "change" | "delete"; secret: Secret } | null;

/** Credentials for the agents' tools. Values go in and never come out. */
export function SecretsPage() {
  const { uses } = useSearch({ from: "/house/secrets" });
  const navigate = useNavigate();
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  const columns: Column<Secret>[] = [
    {
      title: "Secret",
      cell: (secret) => (
        <>
          <code className="font-medium">{secret.name}</code>{" "}
          {secret.reflected_at !== null && <Badge tone="bad">sent back by a site</Badge>}
          <code className="block text-sm whitespace-nowrap text-muted md:hidden">{secret.masked_value}</code>
          {secret.description !== "" && <p className="text-sm text-muted">{secret.description}</p>}
        </>
      ),
    },
    {
      title: "Value",
      wide: true,
      cell: (secret) => <code className="text-sm whitespace-nowrap text-muted">{secret.masked_value}</code>,
    },
    {
      title: "May be sent to",
      wide: true,
      cell: (secret) =>
        secret.allowed_hosts === null ? (
          <span className="text-muted">where an agent is set up to</span>
        ) : (
          secret.allowed_hosts.join(", ") || "nowhere"
        ),
    },
    {
      title: "Last used",
      wide: true,
      cell: (secret) =>
        secret.last_used_at === null ? <span className="text-muted">never</span> : ago(secret.last_used_at),
    },
    {
      title: "",
      numeric: true,
      cell: (secret) => (
        <span className="flex justify-end gap-1">
          <Link
            to="/secrets"
            search={{ uses: secret.id }}
            className={buttonClass("quiet", "px-2")}
            aria-label={`Uses of ${secret.name}`}
            title="Uses"
          >
            <Icon name="clock" />
          </Link>
          <Button
            kind="quiet"
            icon="edit"
            className="px-2"
            aria-label={`Change ${secret.name}`}
            title="Change"
            onClick={() => setOpen({ what: "change", secret })}
          />
          <Button
            kind="quiet"
            icon="trash"
            className="px-2"
            aria-label={`Delete ${secret.name}`}
            title="Delete"
            onClick={() => setOpen({ what: "delete", secret })}
          />
        </span>
      ),
    },
  ];
  const store = (
    <Button kind="primary" icon="plus" onClick={() => setOpen({ what: "new" })}>
      New secret
    </Button>
  );
  return (
    <>
      <PageHeader
        title="Secrets"
        note="Credentials for your agents' tools. A value is sealed as it arrives and never shown again, to you or to a model."
      >
        {store}
      </PageHeader>
      <Card flush>
        <PagedTable
          label="Secrets"
          query={secretsQuery}
          columns={columns}
          keyOf={(secret) => secret.id}
          empty={
            <Empty icon="secrets" title="No secrets yet" action={store}>
              Store the key of an API that an agent is to call; then choose it under the agent's tools, with the hosts
              it may be sent to.
            </Empty>
          }
        />
      </Card>
      {open?.what === "new" && <SecretForm secret={null} onClose={close} />}
      {open?.what === "change" && <SecretForm secret={open.secret} onClose={close} />}
      {open?.what === "delete" && (
        <Confirm
          title={`Delete ${open.secret.name}?`}
          act="Delete the secret"
          onClose={close}
          onAct={async () => {
            await call("DELETE /api/v1/secrets/{id}", { params: { id: open.secret.id } });
            await stale("secrets");
          }}
        >
          Its value is destroyed. Steps of agents that need it fail from then on, and say so. This cannot be undone.
        </Confirm>
      )}
      {uses !== undefined && <Uses id={uses} onClose={() => void navigate({ to: "/secrets" })} />}
    </>
  );
}

function SecretForm({ secret, onClose }: { secret: Secret | null; onClose: () => void }) {
  const [name, setName] = useState("");
  const [description, setDescription] = useState(secret?.description ?? "");
  const [value, setValue] = useState("");
  const [hosts, setHosts] = useState(secret?.allowed_hosts?.join(", ") ?? "");
  const { act, busy, error } = useAct();
  const save = (event: FormEvent) => {
    event.preventDefault();
    void act(async () => {
      const allowed_hosts = hosts.trim() === "" ? null : toList(hosts);
      if (secret === null) await call("POST /api/v1/secrets", { body: { name, description, value, allowed_hosts } });
      else {
        const body = { description, allowed_hosts, ...(value === "" ? {} : { value }) };
        await call("PATCH /api/v1/secrets/{id}", { params: { id: secret.id }, body });
      }
      await stale("secrets");
      onClose();
    });
  };
  return (
    <Dialog title={secret === null ? "New secret" : `Change ${secret.name}`} onClose={onClose}>
      <FormErrorProvider value={error}>
        <form onSubmit={save} className="space-y-4" autoComplete="off">
          {secret === null && (
            <TextField
              label="Name"
              param="name"
              required
              pattern="[A-Za-z_][A-Za-z0-9_]{0,63}"
              title="Letters, digits and _, not beginning with a digit"
              value={name}
              onValue={setName}
              placeholder="STRIPE_KEY"
              hint="Agents refer to it by this name."
            />
          )}
          <AreaField
            label={secret === null ? "Value" : "New value"}
            param="value"
            mono
            rows={2}
            required={secret === null}
            value={value}
            onValue={setValue}
            placeholder={secret === null ? "" : `left as it is: ${secret.masked_value}`}
            hint="Sealed as it arrives. It cannot be looked at again, only replaced."
          />
          <TextField label="Description" param="description" value={description} onValue={setDescription} />
          <TextField
            label="May be sent to"
            param="allowed_hosts"
            value={hosts}
            onValue={setHosts}
            placeholder="wherever an agent is set up to"
            hint="Hosts, parted by commas. Allowing more later needs the value again."
          />
          <FormEnd error={error} busy={busy} onCancel={onClose}>
            {secret === null ? "Store it" : "Save"}
          </FormEnd>
        </form>
      </FormErrorProvider>
    </Dialog>
  );
}

type Use = Answer<"GET /api/v1/secrets/{id}/uses">["uses"][number];

function Uses({ id, onClose }: { id: string; onClose: () => void }) {
  const columns: Column<Use>[] = [
    { title: "When", cell: ({ used_at }) => <span className="md:whitespace-nowrap">{instant(used_at)}</span> },
    { title: "For", cell: ({ host }) => <code className="text-sm">{host}</code> },
    {
      title: "By",
      cell: ({ tool, agent_id, run_id }) =>
        agent_id === null || run_id === null ? (
          tool
        ) : (
          <Link to="/agents/$id/runs/$run_id" params={{ id: agent_id, run_id }} className="link">
            {tool}, in a run
          </Link>
        ),
    },
    {
      title: "Outcome",
      cell: ({ outcome }) => (
        <Badge tone={outcome === "opened" ? "good" : "bad"}>{outcome === "opened" ? "used" : words(outcome)}</Badge>
      ),
    },
  ];
  return (
    <Dialog title="When it was used" onClose={onClose} wide>
      <div className="-mx-5 -my-4">
        <PagedTable
          label="Uses of the secret"
          query={secretUsesQuery(id)}
          columns={columns}
          keyOf={(use) => use.id}
          empty={
            <Empty icon="clock" title="It was never used">
              Each time a tool uses it, or is refused it, is recorded here.
            </Empty>
          }
        />
      </div>
    </Dialog>
  );
}
