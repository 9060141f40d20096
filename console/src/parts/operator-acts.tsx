import { useQuery } from "@tanstack/react-query";
import { DropdownMenu } from "radix-ui";
import { type FormEvent, useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { stale } from "../api/queries.ts";
import { number } from "../format.ts";
import { useAct } from "../ui/act.ts";
import { Button } from "../ui/basics.tsx";
import { ShownOnce } from "../ui/copy.tsx";
import { Confirm, Dialog, FormEnd } from "../ui/dialog.tsx";
import { FormErrorProvider, SelectField, TextField, Toggle } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

type User = Answer<"GET /api/v1/admin/users/{id}">;

/** Makes a user, and shows the first key this once. */
export function NewUser({ api_key, onClose }: { api_key: string; onClose: () => void }) {
  const [email, setEmail] = useState("");
  const [trial, setTrial] = useState(true);
  const [key, setKey] = useState<string | null>(null);
  const { act, busy, error } = useAct();
  const save = (event: FormEvent) => {
    event.preventDefault();
    void act(async () => {
      const made = await call("POST /api/v1/admin/users", { key: api_key, body: { email, trial } });
      setKey(made.api_key.key);
      await stale("operator");
    });
  };
  return (
    <Dialog title="New user" onClose={onClose}>
      {key !== null ? (
        <ShownOnce label="First API key" text={key} onDone={onClose} />
      ) : (
        <FormErrorProvider value={error}>
          <form onSubmit={save} className="space-y-4">
            <TextField label="E-mail" param="email" type="email" required value={email} onValue={setEmail} />
            <Toggle
              label="With a trial"
              checked={trial}
              onChecked={setTrial}
              hint="Without, the account is empty until you grant tokens."
            />
            <FormEnd error={error} busy={busy} onCancel={onClose}>
              Make the user
            </FormEnd>
          </form>
        </FormErrorProvider>
      )}
    </Dialog>
  );
}

type Act = "grant" | "plan" | "suspend" | "resume" | "erase";

/** What the operator can do with one user. */
export function UserActs({ user, api_key }: { user: User; api_key: string }) {
  const [open, setOpen] = useState<Act | null>(null);
  const close = () => setOpen(null);
  const params = { id: user.id };
  const suspended = user.suspended_at !== null;
  const items: [Act, string][] = [
    ["grant", "Grant tokens"],
    ["plan", user.plan === null ? "Give a plan" : "Change the plan"],
    suspended ? ["resume", "Serve again"] : ["suspend", "Suspend"],
    ["erase", "Erase"],
  ];
  const done = async (work: Promise<unknown>) => {
    await work;
    await stale("operator");
  };
  return (
    <>
      <DropdownMenu.Root modal={false}>
        <DropdownMenu.Trigger asChild>
          <Button kind="quiet" aria-label={`Manage ${user.email}`} className="max-md:px-1.5">
            Manage
          </Button>
        </DropdownMenu.Trigger>
        <DropdownMenu.Content
          align="end"
          sideOffset={4}
          className="z-20 min-w-40 rounded-lg border border-line bg-panel p-1 shadow-lg"
        >
          {items.map(([act, name]) => (
            <DropdownMenu.Item
              key={act}
              onSelect={() => setOpen(act)}
              className={`cursor-pointer rounded-md px-2.5 py-1.5 outline-none data-[highlighted]:bg-sunken ${act === "erase" ? "text-bad" : ""}`}
            >
              {name}
            </DropdownMenu.Item>
          ))}
        </DropdownMenu.Content>
      </DropdownMenu.Root>
      {open === "grant" && <Grant user={user} api_key={api_key} onClose={close} />}
      {open === "plan" && <GivePlan user={user} api_key={api_key} onClose={close} />}
      {open === "suspend" && (
        <Confirm
          title={`Suspend ${user.email}?`}
          keep="Cancel"
          act="Suspend"
          onClose={close}
          onAct={() => done(call("POST /api/v1/admin/users/{id}/suspend", { params, key: api_key }))}
        >
          Every request of theirs is refused and their runs are cancelled, until you resume them.
        </Confirm>
      )}
      {open === "resume" && (
        <Confirm
          title={`Serve ${user.email} again?`}
          kind="primary"
          act="Serve again"
          onClose={close}
          onAct={() => done(call("POST /api/v1/admin/users/{id}/resume", { params, key: api_key }))}
        >
          Their keys and schedules work again.
        </Confirm>
      )}
      {open === "erase" && (
        <Confirm
          title={`Erase ${user.email}?`}
          typed={user.email}
          act="Erase for ever"
          onClose={close}
          onAct={() => done(call("DELETE /api/v1/admin/users/{id}", { params, key: api_key }))}
        >
          Keys, secrets, agents and personal data are destroyed; the ledger stays without a name. This cannot be undone.
        </Confirm>
      )}
    </>
  );
}

function GivePlan({ user, api_key, onClose }: { user: User; api_key: string; onClose: () => void }) {
  const plans = useQuery({
    queryKey: ["operator", "plans"],
    queryFn: async () => (await call("GET /api/v1/admin/plans", { key: api_key })).plans,
  });
  const [plan_id, setPlan] = useState(user.plan ?? "");
  const { act, busy, error } = useAct();
  const save = (event: FormEvent) => {
    event.preventDefault();
    void act(async () => {
      await call("POST /api/v1/admin/users/{id}/subscription", {
        params: { id: user.id },
        key: api_key,
        body: { plan_id },
      });
      await stale("operator");
      onClose();
    });
  };
  const options = (plans.data ?? []).map(
    ({ id, name, included_tokens, interval }) => [id, `${name} · ${number(included_tokens)} a ${interval}`] as const,
  );
  return (
    <Dialog title={`A plan for ${user.email}`} onClose={onClose}>
      <FormErrorProvider value={error}>
        <form onSubmit={save} className="space-y-4">
          <SelectField
            label="Plan"
            param="plan_id"
            required
            value={plan_id}
            options={[["", "Choose one"], ...options]}
            onValue={setPlan}
            hint="As if it were paid: its tokens come at once, and with each period from then on. A smaller plan begins when the present period ends."
          />
          {plans.isError && <ProblemNotice error={plans.error} />}
          <FormEnd error={error} busy={busy} onCancel={onClose} disabled={plan_id === "" || plan_id === user.plan}>
            Give the plan
          </FormEnd>
        </form>
      </FormErrorProvider>
    </Dialog>
  );
}

const SOURCES = [
  ["bonus", "Bonus"],
  ["top_up", "Top-up"],
  ["subscription", "Subscription"],
] as const;

function Grant({ user, api_key, onClose }: { user: User; api_key: string; onClose: () => void }) {
  const [amount, setAmount] = useState("625000");
  const [source, setSource] = useState<(typeof SOURCES)[number][0]>("bonus");
  const [note, setNote] = useState("");
  const { act, busy, error } = useAct();
  const save = (event: FormEvent) => {
    event.preventDefault();
    void act(async () => {
      const body = { amount_tokens: Number(amount), source, ...(note === "" ? {} : { note }) };
      await call("POST /api/v1/admin/users/{id}/grants", { params: { id: user.id }, key: api_key, body });
      await stale("operator");
      onClose();
    });
  };
  return (
    <Dialog title={`Grant tokens to ${user.email}`} onClose={onClose}>
      <FormErrorProvider value={error}>
        <form onSubmit={save} className="space-y-4">
          <TextField
            label="Tokens"
            param="amount_tokens"
            type="number"
            min={1}
            required
            value={amount}
            onValue={setAmount}
          />
          <SelectField label="Counts as" value={source} options={SOURCES} onValue={setSource} />
          <TextField
            label="Note"
            param="note"
            value={note}
            onValue={setNote}
            hint="The user reads it beside the bucket."
          />
          <FormEnd error={error} busy={busy} onCancel={onClose}>
            Grant
          </FormEnd>
        </form>
      </FormErrorProvider>
    </Dialog>
  );
}
