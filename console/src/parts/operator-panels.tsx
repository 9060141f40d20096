import { queryOptions, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Command } from "cmdk";
import { type ReactNode, useDeferredValue, useState } from "react";
import { call } from "../api/client.ts";
import { type Run, stale } from "../api/queries.ts";
import { Badge, Status } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { ITEM, Picker, SearchInput } from "../ui/picker.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

/** What the operator's pages share. */

/** Leads to the operator's page of a user. */
export function UserLink({ id, email }: { id: string; email?: string | null }) {
  return (
    <Link to="/operator/users/$id" params={{ id }} className="link break-all">
      {email ?? <code className="text-xs">{id}</code>}
    </Link>
  );
}

/** The status of another person's run. */
export function RunStatus({ status, has_errors }: { status: Run["status"]; has_errors: boolean }) {
  if (status === "requires_action") return <Badge tone="warn">{WAITS}</Badge>;
  return <Status status={status} has_errors={has_errors} />;
}
export const WAITS = "Waits for its user";

interface UserPickerProps {
  /** The user's id; the empty text: all users. */
  value: string;
  onValue: (id: string) => void;
  className?: string;
}

/** Chooses one user by a part of the address. */
export function UserPicker({ value, onValue, className }: UserPickerProps) {
  return (
    <Picker label="User" className={className} chosen={value === "" ? "All" : <UserAddress id={value} />}>
      {(close) => (
        <UserChoices
          onChoose={(id) => {
            onValue(id);
            close();
          }}
        />
      )}
    </Picker>
  );
}

export const userQuery = (id: string) =>
  queryOptions({
    queryKey: ["operator", "user", id],
    queryFn: ({ signal }) => call("GET /api/v1/admin/users/{id}", { params: { id }, signal }),
  });

function UserAddress({ id }: { id: string }) {
  const { data } = useQuery(userQuery(id));
  return data?.email ?? `User …${id.slice(-6)}`;
}

/** Users in the list of choices. */
const CHOICES = 20;

function UserChoices({ onChoose }: { onChoose: (id: string) => void }) {
  const [text, setText] = useState("");
  const search = useDeferredValue(text.trim());
  const found = useQuery({
    queryKey: ["operator", "users", "choices", search],
    queryFn: async ({ signal }) => {
      const query = { limit: CHOICES, ...(search !== "" && { search }) };
      return (await call("GET /api/v1/admin/users", { query, signal })).users;
    },
    placeholderData: (previous) => previous,
  });
  return (
    <Command label="Search users by address" shouldFilter={false}>
      <SearchInput placeholder="A part of the address" value={text} onValueChange={setText} />
      {found.isError && <ProblemNotice error={found.error} onRetry={() => void found.refetch()} />}
      <Command.List className="max-h-72 overflow-y-auto">
        <Command.Item value="" className={ITEM} onSelect={() => onChoose("")}>
          All
        </Command.Item>
        {found.data?.map(({ id, email }) => (
          <Command.Item key={id} value={id} className={ITEM} onSelect={() => onChoose(id)}>
            <span className="truncate">{email}</span>
          </Command.Item>
        ))}
      </Command.List>
      {found.data?.length === 0 && <p className="px-2.5 py-1.5 text-muted">No users match this text.</p>}
    </Command>
  );
}

/** The reason as the API takes it: an empty one is none. */
export const reasonIfAny = (reason: string) => (reason === "" ? {} : { reason });

interface WithReasonProps {
  title: string;
  action: string;
  saved: string;
  kind?: "danger" | "primary";
  /** The person must type this first. */
  typed?: string;
  /** The act needs no reason. */
  optional?: boolean;
  children: ReactNode;
  onConfirm: (reason: string) => Promise<unknown>;
  onClose: () => void;
}

/** A confirmation that asks for the reason, which the log of acts keeps. */
export function WithReason({ optional = false, children, onConfirm, ...confirm }: WithReasonProps) {
  const [reason, setReason] = useState("");
  return (
    <Confirm
      {...confirm}
      onConfirm={async () => {
        await onConfirm(reason.trim());
        await stale("operator");
      }}
    >
      <div className="mb-4">{children}</div>
      <TextField
        label="Reason"
        required={!optional}
        maxLength={500}
        value={reason}
        onValue={setReason}
        hint={optional ? "Optional. The log of acts keeps it." : "The log of acts keeps it."}
      />
    </Confirm>
  );
}
