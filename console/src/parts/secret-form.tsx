import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api/client.ts";
import { type Secret, stale } from "../api/queries.ts";
import { toList } from "../format.ts";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { AreaField, TextField } from "../ui/fields.tsx";
import { confirmSaved } from "../ui/saved.tsx";

interface Props {
  /** null: a new secret. */
  secret: Secret | null;
  onSaved?: (name: string) => void;
  onClose: () => void;
}

/** Creates or changes a secret. Its value is never shown again. */
export function SecretForm({ secret, onSaved, onClose }: Props) {
  const [name, setName] = useState("");
  const [description, setDescription] = useState(secret?.description ?? "");
  const [value, setValue] = useState("");
  const [hosts, setHosts] = useState(secret?.allowed_hosts?.join(", ") ?? "");
  const save = useMutation({
    mutationFn: () => {
      const allowed_hosts = hosts.trim() === "" ? null : toList(hosts);
      if (secret === null) return call("POST /api/v1/secrets", { body: { name, description, value, allowed_hosts } });
      const body = { description, allowed_hosts, ...(value === "" ? {} : { value }) };
      return call("PATCH /api/v1/secrets/{id}", { params: { id: secret.id }, body });
    },
    onSuccess: async (saved) => {
      await stale("secrets");
      onSaved?.(saved.name);
      confirmSaved("Secret saved");
      onClose();
    },
  });
  return (
    <Dialog title={secret === null ? "New secret" : `Edit ${secret.name}`} onClose={onClose}>
      <DialogForm save={save} action="Save secret" autoComplete="off" onCancel={onClose}>
        {secret === null && (
          <TextField
            label="Name"
            param="name"
            required
            value={name}
            onValue={setName}
            placeholder="Stripe key"
            hint="Agents use the secret by this name. At most 64 characters."
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
          placeholder={secret === null ? "" : `Unchanged: ${secret.masked_value}`}
          hint="The service encrypts the value. You can replace it but not read it."
        />
        <TextField label="Description" param="description" value={description} onValue={setDescription} />
        <TextField
          label="Allowed hosts"
          param="allowed_hosts"
          value={hosts}
          onValue={setHosts}
          placeholder="The hosts in the agents' settings"
          hint="Separate hosts by commas. To add a host later, enter the value again."
        />
      </DialogForm>
    </Dialog>
  );
}
