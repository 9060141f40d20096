import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api/client.ts";
import { type Secret, stale } from "../api/queries.ts";
import { instant } from "../format.ts";
import { Badge, Button, Callout } from "../ui/basics.tsx";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { SelectField } from "../ui/select.tsx";

/** Secrets of type oauth: the sign-in at an MCP server. */

type OAuth = NonNullable<Secret["oauth"]>;

const STATUSES: Record<OAuth["status"], readonly [tone: "good" | "bad" | "neutral", text: string]> = {
  not_connected: ["neutral", "no token yet"],
  connected: ["good", "connected"],
  revoked: ["bad", "access refused"],
};

/** The state of the sign-in, with the reason when it failed. */
export function OAuthStatus({ oauth }: { oauth: OAuth }) {
  const [tone, text] = STATUSES[oauth.status];
  return (
    <>
      <Badge tone={tone}>{text}</Badge>{" "}
      {oauth.expires_at !== null && <span className="text-sm text-muted">token until {instant(oauth.expires_at)}</span>}
      <span className="block text-sm wrap-anywhere text-muted">{oauth.server}</span>
      {oauth.error !== null && <p className="text-sm">{oauth.error}</p>}
    </>
  );
}

/** Takes the person to the authorization server's page. */
export function ConnectButton({ secret }: { secret: Secret }) {
  const connect = useMutation({
    mutationFn: () => call("POST /api/v1/secrets/{id}/oauth/connect", { params: { id: secret.id } }),
    onSuccess: ({ authorization_url }) => window.location.assign(authorization_url),
  });
  return (
    <>
      <Button icon="provider" aria-busy={connect.isPending} onClick={() => connect.isPending || connect.mutate()}>
        {secret.oauth?.status === "not_connected" ? "Connect" : "Connect again"}
      </Button>
      {connect.error !== null && (
        <Dialog title={`${secret.name} could not be connected`} onClose={connect.reset}>
          <ProblemNotice error={connect.error} />
        </Dialog>
      )}
    </>
  );
}

const CONNECT_ERRORS: Record<string, string> = {
  expired: "The sign-in took longer than ten minutes, or another session began it. Choose Connect again.",
  denied: "The authorization server did not give access. Choose Connect again, and allow the access there.",
  failed: "The authorization server did not give a token. The secret shows the reason.",
};

/** The outcome of a sign-in, after the authorization server sent the person back. */
export function ConnectOutcome({ connected, error }: { connected: string | undefined; error: string | undefined }) {
  if (connected !== undefined)
    return (
      <Callout tone="good" icon="check">
        {connected} is connected.
      </Callout>
    );
  const text = error === undefined ? undefined : CONNECT_ERRORS[error];
  return text === undefined ? null : (
    <Callout tone="bad" icon="warning">
      {text}
    </Callout>
  );
}

const GRANTS: readonly (readonly [OAuth["grant"], string])[] = [
  ["authorization_code", "I sign in (Connect)"],
  ["client_credentials", "Client id and secret"],
];

/** A new secret of type oauth, or other credentials for one. */
export function OAuthForm({ secret, onClose }: { secret: Secret | null; onClose: () => void }) {
  const [name, setName] = useState("");
  const [server, setServer] = useState("");
  const [grant, setGrant] = useState<OAuth["grant"]>(secret?.oauth?.grant ?? "authorization_code");
  const [client_id, setClientId] = useState("");
  const [client_secret, setClientSecret] = useState("");
  const [scope, setScope] = useState("");
  const given = filledIn({ client_id, client_secret, scope });
  const save = useMutation({
    mutationFn: () => {
      if (secret === null) {
        const oauth = { server, grant, ...given };
        return call("POST /api/v1/secrets", { body: { name, type: "oauth", oauth } });
      }
      return call("PATCH /api/v1/secrets/{id}", { params: { id: secret.id }, body: { oauth: given } });
    },
    onSuccess: async () => {
      await stale("secrets");
      confirmSaved("Secret saved");
      onClose();
    },
  });
  const is_robot = grant === "client_credentials";
  return (
    <Dialog
      title={secret === null ? "New sign-in for an MCP server" : `Change the sign-in of ${secret.name}`}
      onClose={onClose}
    >
      <DialogForm
        save={save}
        action="Save sign-in"
        autoComplete="off"
        // New credentials drop the tokens, so a save without any would end the connection for nothing.
        disabled={secret !== null && Object.keys(given).length === 0}
        onCancel={onClose}
      >
        {secret?.oauth?.status === "connected" && (
          <p className="text-pretty text-muted">
            A change ends the present connection.{" "}
            {is_robot ? "The agent then signs in with the new credentials." : "After it, choose Connect again."}
          </p>
        )}
        {secret === null && (
          <>
            <NewFields name={name} setName={setName} server={server} setServer={setServer} />
            <SelectField label="Sign-in" value={grant} options={GRANTS} onValue={setGrant} />
          </>
        )}
        <TextField
          label="Client id"
          param="oauth.client_id"
          required={is_robot && secret === null}
          value={client_id}
          onValue={setClientId}
          placeholder={secret?.oauth?.client_id ?? ""}
          {...(is_robot ? {} : { hint: "Leave it empty if the server registers clients by itself." })}
        />
        <TextField
          label="Client secret"
          param="oauth.client_secret"
          type="password"
          required={is_robot}
          value={client_secret}
          onValue={setClientSecret}
        />
        <TextField
          label="Scope"
          param="oauth.scope"
          value={scope}
          onValue={setScope}
          placeholder={secret?.oauth?.scope ?? "what the server asks for"}
        />
      </DialogForm>
    </Dialog>
  );
}

function filledIn(fields: Record<"client_id" | "client_secret" | "scope", string>) {
  return Object.fromEntries(Object.entries(fields).filter(([, text]) => text.trim() !== ""));
}

interface NewFieldsProps {
  name: string;
  setName: (name: string) => void;
  server: string;
  setServer: (server: string) => void;
}

function NewFields({ name, setName, server, setServer }: NewFieldsProps) {
  return (
    <>
      <TextField
        label="Name"
        param="name"
        required
        value={name}
        onValue={setName}
        placeholder="CALENDAR"
        hint="Agents use the secret by this name."
      />
      <TextField
        label="Address of the MCP server"
        param="oauth.server"
        type="url"
        required
        value={server}
        onValue={setServer}
        placeholder="https://mcp.example.com/mcp"
        hint="Only this address gets the token."
      />
    </>
  );
}
