import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { stale } from "../api/queries.ts";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { confirmSaved } from "../ui/saved.tsx";

interface Props {
  user: Answer<"GET /api/v1/admin/users/{id}">;
  onClose: () => void;
}

/** Corrects the balance of a user by an entry of the ledger. */
export function AdjustBalance({ user, onClose }: Props) {
  const [amount, setAmount] = useState("");
  const [reason, setReason] = useState("");
  const save = useMutation({
    mutationFn: () => {
      const body = { amount_tokens: Number(amount), reason };
      return call("POST /api/v1/admin/users/{id}/adjustments", { params: { id: user.id }, body });
    },
    onSuccess: async () => {
      await stale("operator");
      confirmSaved("Balance adjusted");
      onClose();
    },
  });
  return (
    <Dialog title={`Adjust the balance of ${user.email}`} onClose={onClose}>
      <DialogForm save={save} action="Adjust balance" onCancel={onClose}>
        <TextField
          label="Tokens"
          param="amount_tokens"
          type="number"
          required
          value={amount}
          onValue={setAmount}
          hint="A negative number takes tokens. Tokens that a running call holds stay."
        />
        <TextField
          label="Reason"
          param="reason"
          required
          value={reason}
          onValue={setReason}
          hint="The user sees it in the ledger."
        />
      </DialogForm>
    </Dialog>
  );
}

/** Corrects the e-mail address of a user. */
export function ChangeAddress({ user, onClose }: Props) {
  const [email, setEmail] = useState(user.email);
  const [reason, setReason] = useState("");
  const save = useMutation({
    mutationFn: () => {
      const body = { email, ...(reason === "" ? {} : { reason }) };
      return call("PATCH /api/v1/admin/users/{id}", { params: { id: user.id }, body });
    },
    onSuccess: async () => {
      await stale("operator");
      confirmSaved("E-mail address changed");
      onClose();
    },
  });
  return (
    <Dialog title={`Change the address of ${user.email}`} onClose={onClose}>
      <DialogForm save={save} action="Change address" onCancel={onClose}>
        <TextField label="E-mail" param="email" type="email" required value={email} onValue={setEmail} />
        <TextField label="Reason" param="reason" value={reason} onValue={setReason} hint="The log of acts keeps it." />
      </DialogForm>
    </Dialog>
  );
}
