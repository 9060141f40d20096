import { useSuspenseQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { profileQuery } from "../api/queries.ts";
import { changePassword, deleteAccount, signOutEverywhere } from "../api/session.ts";
import { day } from "../format.ts";
import { useAct } from "../ui/act.ts";
import { Button, Callout, Card, Facts, PageHeader } from "../ui/basics.tsx";
import { Confirm, Dialog, FormEnd } from "../ui/dialog.tsx";
import { FormErrorProvider, TextField } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

export function AccountPage() {
  const { data: profile } = useSuspenseQuery(profileQuery);
  const [open, setOpen] = useState<"leave" | "delete" | null>(null);
  const close = () => setOpen(null);
  return (
    <>
      <PageHeader title="Your account" />
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <div className="space-y-4">
          <Card title="You">
            <Facts
              facts={[
                ["E-mail", profile.email],
                ["Here since", day(profile.created_at)],
                ["Plan", profile.plan ?? (profile.is_trial ? "trial" : "none")],
                [
                  "Id",
                  <code key="id" className="text-sm break-all">
                    {profile.id}
                  </code>,
                ],
              ]}
            />
          </Card>
          <Card title="Sessions">
            <p className="mb-3 text-muted">
              If you have signed in where you should not have, end every session, this one included.
            </p>
            <Button onClick={() => setOpen("leave")}>Sign out everywhere</Button>
          </Card>
        </div>
        <div className="space-y-4">
          <PasswordCard />
          <Card title="Delete the account">
            <p className="mb-3 text-muted">
              Your agents, secrets, keys and tokens are destroyed, and a plan ends. Take your ledger with you first: it
              is under Usage and billing.
            </p>
            <Button kind="danger" onClick={() => setOpen("delete")}>
              Delete the account
            </Button>
          </Card>
        </div>
      </div>
      {open === "leave" && (
        <Confirm title="Sign out everywhere?" act="Sign out everywhere" onClose={close} onAct={signOutEverywhere}>
          Every browser has to sign in again. API keys and schedules go on.
        </Confirm>
      )}
      {open === "delete" && <DeleteAccount email={profile.email} onClose={close} />}
    </>
  );
}

function DeleteAccount({ email, onClose }: { email: string; onClose: () => void }) {
  const [password, setPassword] = useState("");
  const { act, busy, error } = useAct();
  const erase = (event: FormEvent) => {
    event.preventDefault();
    void act(() => deleteAccount(password));
  };
  return (
    <Dialog title={`Delete ${email}?`} onClose={onClose}>
      <FormErrorProvider value={error}>
        <form onSubmit={erase} className="space-y-4">
          <p className="text-pretty text-muted">
            What is left of your tokens is lost, and nothing can be brought back. The service keeps your ledger, without
            your name.
          </p>
          <TextField
            label="Your password"
            param="current_password"
            type="password"
            autoComplete="current-password"
            required
            value={password}
            onValue={setPassword}
          />
          <FormEnd error={error} busy={busy} onCancel={onClose} cancel="Keep it" kind="danger">
            Delete for ever
          </FormEnd>
        </form>
      </FormErrorProvider>
    </Dialog>
  );
}

function PasswordCard() {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [changed, setChanged] = useState(false);
  const { act, busy, error } = useAct();
  const save = (event: FormEvent) => {
    event.preventDefault();
    setChanged(false);
    void act(async () => {
      await changePassword(current, next);
      setChanged(true);
      setCurrent("");
      setNext("");
    });
  };
  return (
    <Card title="Password" note="A change ends your other sessions.">
      <form onSubmit={save} className="space-y-4">
        <TextField
          label="Present password"
          type="password"
          autoComplete="current-password"
          required
          value={current}
          onValue={setCurrent}
        />
        <TextField
          label="New password"
          type="password"
          autoComplete="new-password"
          required
          minLength={10}
          value={next}
          onValue={setNext}
        />
        {error !== null && <ProblemNotice error={error} />}
        {changed && (
          <Callout tone="good" icon="check">
            Your password is changed.
          </Callout>
        )}
        <Button type="submit" busy={busy}>
          Change the password
        </Button>
      </form>
    </Card>
  );
}
