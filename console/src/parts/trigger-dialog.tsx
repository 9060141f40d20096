import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api/client.ts";
import { type Agent, stale, type Trigger } from "../api/queries.ts";
import { objectOf, objectText } from "../json.ts";
import { Copyable, ShownOnce } from "../ui/copy.tsx";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { AreaField, fieldsOf, TextField, Toggle } from "../ui/fields.tsx";
import { JsonField } from "../ui/json-field.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { SelectField } from "../ui/select.tsx";

type Verify = Trigger["verify"];
type Sender = Extract<Verify, string> | "shopify" | "hmac_sha256";

const SENDERS: readonly (readonly [Sender, string])[] = [
  ["github", "GitHub"],
  ["stripe", "Stripe"],
  ["slack", "Slack"],
  ["shopify", "Shopify"],
  ["standard_webhooks", "Standard Webhooks (Svix, Clerk, Purser …)"],
  ["hmac_sha256", "Another one that signs with HMAC-SHA256"],
  ["bearer", "A program of yours, with a token"],
];
/** Services whose secret is made on their side. */
const OWN_SECRET: Partial<Record<Sender, string>> = {
  stripe: "The endpoint's signing secret, whsec_…, in Stripe's dashboard. Empty: set it later by “Replace secret”.",
  slack: "The app's signing secret, in Slack's settings of the app.",
  shopify: "The app's client secret. Webhooks of the shop's admin show theirs in its settings.",
};
const SHOPIFY = { type: "hmac_sha256", header: "X-Shopify-Hmac-Sha256", prefix: "", encoding: "base64" } as const;
const ENCODINGS = [
  ["hex", "hex"],
  ["base64", "base64"],
] as const;

interface Draft {
  name: string;
  sender: Sender;
  header: string;
  prefix: string;
  encoding: "hex" | "base64";
  secret: string;
  filter: string;
  input_map: string;
  run_prompt: string;
  enabled: boolean;
}

function senderOf(verify: Verify): Sender {
  if (typeof verify === "string") return verify;
  return verify.header.toLowerCase() === SHOPIFY.header.toLowerCase() && verify.encoding === "base64"
    ? "shopify"
    : "hmac_sha256";
}

function draftOf(trigger: Trigger | null): Draft {
  const verify = trigger?.verify ?? "github";
  const hmac = typeof verify === "string" ? { header: "X-Signature", prefix: "", encoding: "hex" as const } : verify;
  return {
    name: trigger?.name ?? "",
    sender: senderOf(verify),
    header: hmac.header,
    prefix: hmac.prefix,
    encoding: hmac.encoding,
    secret: "",
    filter: objectText(trigger?.filter ?? null),
    input_map: objectText(trigger?.input_map ?? null),
    run_prompt: trigger?.run_prompt ?? "",
    enabled: trigger?.enabled ?? true,
  };
}

function verifyOf({ sender, header, prefix, encoding }: Draft): Verify {
  if (sender === "shopify") return SHOPIFY;
  return sender === "hmac_sha256" ? { type: "hmac_sha256", header, prefix, encoding } : sender;
}

interface Props {
  agent: Agent;
  /** null: a new one. */
  trigger: Trigger | null;
  onClose: () => void;
}

/** Creates or changes a trigger. A new one shows its address, and its secret once. */
export function TriggerDialog({ agent, trigger, onClose }: Props) {
  const [draft, setDraft] = useState(() => draftOf(trigger));
  const change = (changes: Partial<Draft>) => setDraft((old) => ({ ...old, ...changes }));
  const field = fieldsOf(draft, change);
  const save = useMutation({
    mutationFn: async () => {
      const body = {
        name: draft.name,
        verify: verifyOf(draft),
        filter: objectOf(draft.filter) as Trigger["filter"],
        input_map: objectOf(draft.input_map) as Trigger["input_map"],
        run_prompt: draft.run_prompt.trim() === "" ? null : draft.run_prompt,
        enabled: draft.enabled,
      };
      if (trigger === null) {
        const secret = draft.secret === "" ? {} : { secret: draft.secret };
        return call("POST /api/v1/agents/{id}/triggers", { params: { id: agent.id }, body: { ...body, ...secret } });
      }
      const params = { id: agent.id, trigger_id: trigger.id };
      await call("PATCH /api/v1/agents/{id}/triggers/{trigger_id}", { params, body });
      return null;
    },
    onSuccess: async (created) => {
      await stale("agents");
      confirmSaved(trigger === null ? "Trigger added" : "Trigger saved");
      if (created === null) onClose();
    },
  });
  const created = save.data ?? null;
  if (created !== null) {
    return (
      <Dialog title={`Trigger ${created.name}`} onClose={onClose}>
        <div className="space-y-4">
          <p>Give the sender this address and this secret.</p>
          <Copyable label="Address" text={created.url} />
          <ShownOnce label="Secret" text={created.secret} onDone={onClose} />
        </div>
      </Dialog>
    );
  }
  const own_secret = OWN_SECRET[draft.sender];
  return (
    <Dialog title={trigger === null ? "Add trigger" : `Edit trigger ${trigger.name}`} onClose={onClose} wide>
      <DialogForm
        save={save}
        action={trigger === null ? "Add trigger" : "Save trigger"}
        onCancel={onClose}
        autoComplete="off"
      >
        <div className="grid items-start gap-4 sm:grid-cols-2">
          <TextField label="Name" {...field("name")} required maxLength={100} placeholder="new issues" />
          <SelectField label="Sender" {...field("sender", "verify")} options={SENDERS} />
          {draft.sender === "hmac_sha256" && (
            <>
              <TextField label="Header with the signature" {...field("header", "verify.header")} required />
              <TextField
                label="Text before the signature"
                {...field("prefix", "verify.prefix")}
                placeholder="sha256="
              />
              <SelectField label="Encoding" {...field("encoding", "verify.encoding")} options={ENCODINGS} />
            </>
          )}
          {trigger === null && own_secret !== undefined && (
            <TextField label="Sender's secret" {...field("secret")} hint={own_secret} />
          )}
        </div>
        <JsonField
          label="Only deliveries with"
          {...field("filter")}
          rows={2}
          placeholder={'{"headers.x-github-event": "issues", "action": ["opened", "reopened"]}'}
          hint="Values by field, as JSON; a list means one of its values. Empty: every delivery starts a run."
        />
        <JsonField
          label="Input of the run"
          {...field("input_map")}
          rows={2}
          placeholder={'{"title": "issue.title", "event": "headers.x-github-event"}'}
          hint="Names for fields of the delivery, as JSON. Empty: the whole delivery. It counts as outside content."
        />
        <AreaField
          label="Task of its runs"
          {...field("run_prompt")}
          placeholder={agent.run_prompt ?? ""}
          hint="Empty: the agent's task."
        />
        <Toggle
          label="On"
          checked={draft.enabled}
          onChecked={(enabled) => change({ enabled })}
          hint="Off: deliveries are listed, and start no runs."
        />
      </DialogForm>
    </Dialog>
  );
}
