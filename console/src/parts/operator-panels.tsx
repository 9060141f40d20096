import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { stale } from "../api/queries.ts";
import { Confirm } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";

/** What the operator's pages share. */

/** Leads to the operator's page of a user. */
export function UserLink({ id, email }: { id: string; email?: string | null }) {
  return (
    <Link to="/operator/users/$id" params={{ id }} className="link break-all">
      {email ?? <code className="text-xs">{id}</code>}
    </Link>
  );
}

interface WithReasonProps {
  title: string;
  action: string;
  saved: string;
  children: string;
  onConfirm: (reason: string) => Promise<unknown>;
  onClose: () => void;
}

/** A confirmation that asks for the reason, which the log of acts keeps. */
export function WithReason({ title, action, saved, children, onConfirm, onClose }: WithReasonProps) {
  const [reason, setReason] = useState("");
  const confirm = async () => {
    await onConfirm(reason);
    await stale("operator");
  };
  return (
    <Confirm title={title} action={action} saved={saved} onClose={onClose} onConfirm={confirm}>
      <p className="mb-4">{children}</p>
      <TextField label="Reason" required value={reason} onValue={setReason} hint="The log of acts keeps it." />
    </Confirm>
  );
}
