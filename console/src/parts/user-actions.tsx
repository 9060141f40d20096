import { useMutation, useQuery } from "@tanstack/react-query";
import { DropdownMenu } from "radix-ui";
import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { stale } from "../api/queries.ts";
import { dollars, number } from "../format.ts";
import { Button } from "../ui/basics.tsx";
import { ShownOnce } from "../ui/copy.tsx";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { TextField, Toggle } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { SelectField } from "../ui/select.tsx";
import { AdjustBalance, ChangeAddress } from "./balance-actions.tsx";
import { ROLES } from "./operator-keys.tsx";
import { reasonIfAny, WithReason } from "./operator-panels.tsx";

type User = Answer<"GET /api/v1/admin/users/{id}">;

/** Creates a user and shows the first API key once. */
export function NewUser({ onClose }: { onClose: () => void }) {
  const [email, setEmail] = useState("");
  const [trial, setTrial] = useState(true);
  const [key, setKey] = useState<string | null>(null);
  const save = useMutation({
    mutationFn: () => call("POST /api/v1/admin/users", { body: { email, trial } }),
    onSuccess: (created) => {
      setKey(created.api_key.key);
      return stale("operator");
    },
  });
  return (
    <Dialog title="New user" onClose={onClose}>
      {key !== null ? (
        <>
          <p className="mb-4 text-pretty">
            {email} has an account. For the console, the person chooses a password: <em>Forgot the password?</em> on the
            sign-in page sends a link to this address; without a mail server, the service's log has the link. For
            programs, the person needs this key.
          </p>
          <ShownOnce label="First API key" text={key} onDone={onClose} />
        </>
      ) : (
        <DialogForm save={save} action="Create user" onCancel={onClose}>
          <TextField label="E-mail" param="email" type="email" required value={email} onValue={setEmail} />
          <Toggle
            label="With a trial"
            checked={trial}
            onChecked={setTrial}
            hint="Without a trial the account has no tokens until you grant some."
          />
        </DialogForm>
      )}
    </Dialog>
  );
}

type Action = "grant" | "adjust" | "address" | "role" | "plan" | "cancel" | "suspend" | "resume" | "erase";

interface ActionMenuProps {
  label: string;
  items: readonly (readonly [Action, string])[];
  onSelect: (action: Action) => void;
}

function ActionMenu({ label, items, onSelect }: ActionMenuProps) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>
        <Button kind="quiet" aria-label={label} className="max-md:px-1.5">
          Manage
        </Button>
      </DropdownMenu.Trigger>
      <DropdownMenu.Content
        align="end"
        sideOffset={4}
        className="z-20 min-w-40 rounded-lg border border-line bg-panel p-1 shadow-lg"
      >
        {items.map(([action, name]) => (
          <DropdownMenu.Item
            key={action}
            onSelect={() => onSelect(action)}
            className={`cursor-pointer rounded-md px-2.5 py-1.5 outline-none data-[highlighted]:bg-sunken ${action === "erase" ? "text-bad" : ""}`}
          >
            {name}
          </DropdownMenu.Item>
        ))}
      </DropdownMenu.Content>
    </DropdownMenu.Root>
  );
}

function actionsOn(user: User): [Action, string][] {
  const suspended = user.suspended_at !== null;
  return [
    ["grant", "Grant tokens"],
    ["adjust", "Adjust balance"],
    ["plan", user.plan === null ? "Give a plan" : "Change the plan"],
    ...(user.plan === null ? [] : [["cancel", "Cancel the plan"] satisfies [Action, string]]),
    ["address", "Change address"],
    ["role", "Operator role"],
    suspended ? ["resume", "Resume user"] : ["suspend", "Suspend user"],
    ["erase", "Erase user"],
  ];
}

/** The operator's actions on one user. */
export function UserActions({ user }: { user: User }) {
  const [open, setOpen] = useState<Action | null>(null);
  const close = () => setOpen(null);
  const params = { id: user.id };
  return (
    <>
      <ActionMenu label={`Manage ${user.email}`} items={actionsOn(user)} onSelect={setOpen} />
      {open === "grant" && <Grant user={user} onClose={close} />}
      {open === "adjust" && <AdjustBalance user={user} onClose={close} />}
      {open === "address" && <ChangeAddress user={user} onClose={close} />}
      {open === "role" && <OperatorRole user={user} onClose={close} />}
      {open === "cancel" && (
        <WithReason
          title={`Cancel the plan of ${user.email}?`}
          action="Cancel plan"
          saved="Plan cancelled"
          onClose={close}
          onConfirm={(reason) => call("DELETE /api/v1/admin/users/{id}/subscription", { params, query: { reason } })}
        >
          It ends with its period. The user keeps the tokens as the plan says.
        </WithReason>
      )}
      {open === "plan" && <GivePlan user={user} onClose={close} />}
      {open === "suspend" && (
        <WithReason
          title={`Suspend ${user.email}?`}
          action="Suspend user"
          saved="User suspended"
          optional
          onClose={close}
          onConfirm={(reason) => call("POST /api/v1/admin/users/{id}/suspend", { params, body: reasonIfAny(reason) })}
        >
          All their requests fail and their runs are cancelled until you resume the user.
        </WithReason>
      )}
      {open === "resume" && (
        <WithReason
          title={`Resume ${user.email}?`}
          kind="primary"
          action="Resume user"
          saved="User resumed"
          optional
          onClose={close}
          onConfirm={(reason) => call("POST /api/v1/admin/users/{id}/resume", { params, body: reasonIfAny(reason) })}
        >
          Their keys and schedules work again.
        </WithReason>
      )}
      {open === "erase" && (
        <WithReason
          title={`Erase ${user.email}?`}
          typed={user.email}
          action="Erase user"
          saved="User erased"
          optional
          onClose={close}
          onConfirm={(reason) => call("DELETE /api/v1/admin/users/{id}", { params, query: reasonIfAny(reason) })}
        >
          This deletes keys, secrets, agents and personal data. The ledger stays without a name. This cannot be undone.
        </WithReason>
      )}
    </>
  );
}

const OPERATOR_ROLES = [["none", "None"], ...ROLES] as const;

/** Makes the user an operator, or ends that. */
function OperatorRole({ user, onClose }: { user: User; onClose: () => void }) {
  const [role, setRole] = useState<(typeof OPERATOR_ROLES)[number][0]>(user.operator_role ?? "none");
  const save = useMutation({
    mutationFn: () => {
      const body = { operator_role: role === "none" ? null : role };
      return call("PATCH /api/v1/admin/users/{id}", { params: { id: user.id }, body });
    },
    onSuccess: async () => {
      await stale("operator", "profile");
      confirmSaved("Operator role saved");
      onClose();
    },
  });
  return (
    <Dialog title={`Operator role of ${user.email}`} onClose={onClose}>
      <DialogForm save={save} action="Save role" onCancel={onClose}>
        <SelectField
          label="Role"
          param="operator_role"
          value={role}
          options={OPERATOR_ROLES}
          onValue={setRole}
          hint="It works in the console, after a second look at the person's password. Keys of the account get nothing."
        />
      </DialogForm>
    </Dialog>
  );
}

function GivePlan({ user, onClose }: { user: User; onClose: () => void }) {
  const plans = useQuery({
    queryKey: ["operator", "plans"],
    queryFn: async () => (await call("GET /api/v1/admin/plans")).plans,
  });
  const [plan_id, setPlan] = useState(user.plan ?? "");
  const save = useMutation({
    mutationFn: () =>
      call("POST /api/v1/admin/users/{id}/subscription", {
        params: { id: user.id },
        body: { plan_id },
      }),
    onSuccess: async () => {
      await stale("operator");
      confirmSaved("Plan saved");
      onClose();
    },
  });
  const options = (plans.data ?? []).map(
    ({ id, name, included_tokens, interval }) => [id, `${name} · ${number(included_tokens)} per ${interval}`] as const,
  );
  return (
    <Dialog title={`A plan for ${user.email}`} onClose={onClose}>
      <DialogForm save={save} action="Give plan" onCancel={onClose} disabled={plan_id === "" || plan_id === user.plan}>
        <SelectField
          label="Plan"
          param="plan_id"
          required
          value={plan_id}
          options={[["", "Choose a plan"], ...options]}
          onValue={setPlan}
          hint="No payment is needed. The tokens are granted now and in each period. A smaller plan starts after the current period."
        />
        {plans.isError && <ProblemNotice error={plans.error} />}
      </DialogForm>
    </Dialog>
  );
}

const SOURCES = [
  ["bonus", "Bonus"],
  ["top_up", "Top-up"],
  ["subscription", "Subscription"],
] as const;

/** Grants tokens to the user. */
export function Grant({ user, onClose }: { user: User; onClose: () => void }) {
  const [amount, setAmount] = useState("625000");
  const [source, setSource] = useState<(typeof SOURCES)[number][0]>("bonus");
  const [note, setNote] = useState("");
  const save = useMutation({
    mutationFn: () => {
      const body = { amount_tokens: Number(amount), source, ...(note === "" ? {} : { note }) };
      return call("POST /api/v1/admin/users/{id}/grants", { params: { id: user.id }, body });
    },
    onSuccess: async () => {
      await stale("operator");
      confirmSaved("Tokens granted");
      onClose();
    },
  });
  return (
    <Dialog title={`Grant tokens to ${user.email}`} onClose={onClose}>
      <DialogForm save={save} action="Grant tokens" onCancel={onClose}>
        <TextField
          label="Tokens"
          param="amount_tokens"
          type="number"
          min={1}
          required
          value={amount}
          onValue={setAmount}
          hint={amount === "" ? undefined : `Worth ${dollars(Number(amount))} at the standard rate.`}
        />
        <SelectField label="Type" value={source} options={SOURCES} onValue={setSource} />
        <TextField
          label="Note"
          param="note"
          value={note}
          onValue={setNote}
          hint="The user sees it beside the bucket."
        />
      </DialogForm>
    </Dialog>
  );
}
