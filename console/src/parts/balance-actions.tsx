import { useMutation, useQuery } from "@tanstack/react-query";
import { Fragment, useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { stale } from "../api/queries.ts";
import { instant, number, words } from "../format.ts";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { reasonIfAny } from "./operator-panels.tsx";

/** What a correction will change, in tokens, before it is confirmed. */
export function Change({ facts }: { facts: [string, number][] }) {
  return (
    <dl
      aria-label="What will change"
      className="mb-3 grid grid-cols-[1fr_auto] gap-x-4 gap-y-1 rounded-lg bg-sunken px-3 py-2"
    >
      {facts.map(([name, tokens]) => (
        <Fragment key={name}>
          <dt>{name}</dt>
          <dd className="text-right font-medium text-ink">{number(tokens).replace("-", "−")}</dd>
        </Fragment>
      ))}
    </dl>
  );
}

/** The change of a balance by an adjustment: bonuses are taken before paid tokens, of each the oldest first. */
function useAdjustment(user: Props["user"], amount: number): [string, number][] | null {
  const { data } = useQuery({
    queryKey: ["operator", "buckets", user.id, "all"],
    queryFn: ({ signal }) => call("GET /api/v1/admin/users/{id}/buckets", { params: { id: user.id }, signal }),
  });
  const { available, debt } = user.balance;
  if (!Number.isSafeInteger(amount) || amount === 0 || data === undefined) return null;
  if (amount > 0) {
    const repaid = Math.min(debt, amount);
    return [
      ...(repaid > 0 ? [["Repays debt", repaid] satisfies [string, number]] : []),
      ["New bonus, valid for 12 months", amount - repaid],
      ["Available now", available],
      ["Available afterwards", available + amount - repaid],
    ];
  }
  let left = -amount;
  const taken: [string, number][] = [];
  const isPaid = ({ source }: { source: string }) => Number(source !== "bonus");
  for (const bucket of data.buckets.toSorted((a, b) => isPaid(a) - isPaid(b))) {
    const tokens = Math.min(left, bucket.remaining - bucket.held);
    left -= tokens;
    if (tokens > 0)
      taken.push([`From “${bucket.note ?? words(bucket.source)}” of ${instant(bucket.granted_at)}`, -tokens]);
  }
  return [...taken, ["Available now", available], ["Available afterwards", available + amount]];
}

interface Props {
  user: Answer<"GET /api/v1/admin/users/{id}">;
  onClose: () => void;
}

/** Corrects the balance of a user by an entry of the ledger. */
export function AdjustBalance({ user, onClose }: Props) {
  const [amount, setAmount] = useState("");
  const [reason, setReason] = useState("");
  const change = useAdjustment(user, Number(amount));
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
        {change !== null && <Change facts={change} />}
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
      const body = { email, ...reasonIfAny(reason) };
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
