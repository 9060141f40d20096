import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { ShownOnce } from "../ui/copy.tsx";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { SelectField } from "../ui/select.tsx";

const OVERLAPS = [
  ["0", "Not at all"],
  ["1", "For an hour"],
  ["24", "For a day"],
  ["168", "For a week"],
] as const;

interface ReplaceSecretProps {
  /** Of the trigger or the endpoint. */
  name: string;
  /** What the service does with the former secret for a while, and what to do in that time. */
  overlap: { label: string; hint: string };
  /** The hint of the field for a secret of the other side's own; absent: it has none. */
  own?: string;
  replace: (body: { overlap_hours: number; secret?: string }) => Promise<{ secret: string }>;
  onClose: () => void;
}

/** Gives a trigger or an endpoint a new secret, and shows it once. */
export function ReplaceSecret({ name, overlap, own, replace, onClose }: ReplaceSecretProps) {
  const [hours, setHours] = useState<(typeof OVERLAPS)[number][0]>("24");
  const [given, setGiven] = useState("");
  const save = useMutation({
    mutationFn: () => replace({ overlap_hours: Number(hours), ...(given === "" ? {} : { secret: given }) }),
    onSuccess: () => confirmSaved("Secret replaced"),
  });
  return (
    <Dialog title={`Replace secret of ${name}`} onClose={onClose}>
      {save.data === undefined ? (
        <DialogForm save={save} action="Replace secret" onCancel={onClose} autoComplete="off">
          <SelectField
            label={overlap.label}
            param="overlap_hours"
            value={hours}
            options={OVERLAPS}
            onValue={setHours}
            hint={overlap.hint}
          />
          {own !== undefined && (
            <TextField label="Sender's secret" param="secret" value={given} onValue={setGiven} hint={own} />
          )}
        </DialogForm>
      ) : (
        <ShownOnce label="Secret" text={save.data.secret} onDone={onClose} />
      )}
    </Dialog>
  );
}
