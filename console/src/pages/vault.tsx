import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { agentsWithSecretQuery, type Secret, secretsQuery, secretUsesQuery, stale } from "../api/queries.ts";
import { ago, instant, number, words } from "../format.ts";
import { ConnectButton, ConnectOutcome, OAuthForm, OAuthStatus } from "../parts/oauth-secret.tsx";
import { SecretForm } from "../parts/secret-form.tsx";
import { Badge, Button, buttonClass, Card, Empty, PageHeader } from "../ui/basics.tsx";
import { Confirm, Dialog } from "../ui/dialog.tsx";
import { Icon } from "../ui/icons.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { WithTooltip } from "../ui/tooltip.tsx";

type Open = { what: "new" | "new_oauth" } | { what: "edit" | "delete"; secret: Secret } | null;

const COLUMNS: Column<Secret>[] = [
  {
    title: "Secret",
    cell: (secret) => (
      <>
        <code className="font-medium break-all">{secret.name}</code>{" "}
        {secret.reflected_at !== null && <Badge tone="bad">returned by a site</Badge>}
        <div className="md:hidden">
          <Value secret={secret} />
        </div>
        {secret.description !== "" && <p className="text-sm wrap-anywhere text-muted">{secret.description}</p>}
      </>
    ),
  },
  {
    title: "Value",
    wide: true,
    cell: (secret) => <Value secret={secret} />,
  },
  {
    title: "Allowed hosts",
    wide: true,
    cell: (secret) =>
      secret.allowed_hosts === null ? (
        <span className="text-muted">The hosts in the agents' settings</span>
      ) : (
        secret.allowed_hosts.join(", ") || "None"
      ),
  },
  {
    title: "Last used",
    wide: true,
    cell: (secret) =>
      secret.last_used_at === null ? <span className="text-muted">Never</span> : ago(secret.last_used_at),
  },
];

/** The mask of a value, or the state of a sign-in. */
function Value({ secret: { oauth, masked_value } }: { secret: Secret }) {
  if (oauth !== null) return <OAuthStatus oauth={oauth} />;
  return <code className="text-sm whitespace-nowrap text-muted">{masked_value}</code>;
}

/** Credentials for the agents' tools. No page shows a stored value. */
export function VaultPage() {
  const { uses, connected, connect_error } = useSearch({ from: "/signed-in/vault" });
  const navigate = useNavigate();
  const [open, setOpened] = useState<Open>(null);
  const setOpen = (next: Open) => {
    setOpened(next);
    // What the person does next can make the outcome of the sign-in untrue.
    if (connected !== undefined || connect_error !== undefined) void navigate({ to: "/vault", replace: true });
  };
  const close = () => setOpen(null);
  const actions: Column<Secret> = {
    title: "",
    numeric: true,
    cell: (secret) => <Actions secret={secret} onOpen={setOpen} />,
  };
  const store = (
    <Button kind="primary" icon="plus" onClick={() => setOpen({ what: "new" })}>
      New secret
    </Button>
  );
  return (
    <>
      <PageHeader
        title="Vault"
        note="Credentials for your agents' tools. The service encrypts each value and never shows it again, not to you and not to a model."
      >
        <Button icon="provider" onClick={() => setOpen({ what: "new_oauth" })}>
          New sign-in
        </Button>
        {store}
      </PageHeader>
      <ConnectOutcome connected={connected} error={connect_error} />
      <Card flush>
        <PagedTable
          label="Secrets"
          query={secretsQuery}
          columns={[...COLUMNS, actions]}
          keyOf={(secret) => secret.id}
          empty={
            <Empty icon="secrets" title="No secrets yet" action={store}>
              Store the key of an API that an agent calls. Then choose the secret in the agent's tools, with the hosts
              that may receive it.
            </Empty>
          }
        />
      </Card>
      {open?.what === "new" && <SecretForm secret={null} onClose={close} />}
      {open?.what === "new_oauth" && <OAuthForm secret={null} onClose={close} />}
      {open?.what === "edit" && open.secret.oauth !== null && <OAuthForm secret={open.secret} onClose={close} />}
      {open?.what === "edit" && open.secret.oauth === null && <SecretForm secret={open.secret} onClose={close} />}
      {open?.what === "delete" && (
        <Confirm
          title={`Delete ${open.secret.name}?`}
          action="Delete secret"
          saved="Secret deleted"
          onClose={close}
          onConfirm={async () => {
            await call("DELETE /api/v1/secrets/{id}", { params: { id: open.secret.id } });
            await stale("secrets");
          }}
        >
          <UsedBy secret={open.secret} />
          This deletes the value. Steps that need the secret fail and name it. This cannot be undone.
        </Confirm>
      )}
      {uses !== undefined && <Uses id={uses} onClose={() => void navigate({ to: "/vault", replace: true })} />}
    </>
  );
}

/** The agents that a deletion of the secret would affect. */
function UsedBy({ secret: { name } }: { secret: Secret }) {
  const { data: agents, error, refetch } = useQuery(agentsWithSecretQuery(name));
  if (error !== null) return <ProblemNotice error={error} onRetry={() => void refetch()} />;
  if (agents === undefined) return <p className="mb-3">Looking for agents that use it…</p>;
  if (agents.length === 0) return <p className="mb-3">No agent uses it.</p>;
  return (
    <div className="mb-3">
      <p>{agents.length === 1 ? "This agent uses it:" : `These ${number(agents.length)} agents use it:`}</p>
      <ul className="mt-1 max-h-40 list-disc overflow-auto pl-5">
        {agents.map((agent) => (
          <li key={agent.id}>
            <Link to="/agents/$id" params={{ id: agent.id }} className="link">
              {agent.name}
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Actions({ secret, onOpen }: { secret: Secret; onOpen: (open: Open) => void }) {
  return (
    <span className="flex justify-end gap-1">
      {secret.oauth?.grant === "authorization_code" && <ConnectButton secret={secret} />}
      <WithTooltip text="View uses">
        <Link
          to="/vault"
          search={{ uses: secret.id }}
          className={buttonClass("quiet", "px-2")}
          aria-label={`Uses of ${secret.name}`}
        >
          <Icon name="clock" />
        </Link>
      </WithTooltip>
      <WithTooltip text="Edit secret">
        <Button
          kind="quiet"
          icon="edit"
          className="px-2"
          aria-label={`Edit ${secret.name}`}
          onClick={() => onOpen({ what: "edit", secret })}
        />
      </WithTooltip>
      <WithTooltip text="Delete secret">
        <Button
          kind="quiet"
          icon="trash"
          className="px-2"
          aria-label={`Delete ${secret.name}`}
          onClick={() => onOpen({ what: "delete", secret })}
        />
      </WithTooltip>
    </span>
  );
}

type Use = Answer<"GET /api/v1/secrets/{id}/uses">["uses"][number];

function Uses({ id, onClose }: { id: string; onClose: () => void }) {
  const columns: Column<Use>[] = [
    { title: "When", cell: ({ used_at }) => <span className="md:whitespace-nowrap">{instant(used_at)}</span> },
    { title: "Host", cell: ({ host }) => <code className="text-sm break-all">{host}</code> },
    {
      title: "Tool",
      cell: ({ tool, agent_id, run_id }) =>
        agent_id === null || run_id === null ? (
          tool
        ) : (
          <Link to="/agents/$id/runs/$run_id" params={{ id: agent_id, run_id }} className="link">
            {tool}, view run
          </Link>
        ),
    },
    {
      title: "Result",
      cell: ({ outcome }) => (
        <Badge tone={outcome === "opened" ? "good" : "bad"}>{outcome === "opened" ? "used" : words(outcome)}</Badge>
      ),
    },
  ];
  return (
    <Dialog title="Uses of the secret" onClose={onClose} wide>
      <div className="-mx-5 -my-4">
        <PagedTable
          label="Uses of the secret"
          query={secretUsesQuery(id)}
          columns={columns}
          keyOf={(use) => use.id}
          empty={
            <Empty icon="clock" title="No uses yet">
              Purser records each use and each denied use here.
            </Empty>
          }
        />
      </div>
    </Dialog>
  );
}
