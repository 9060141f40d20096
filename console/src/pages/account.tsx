import { useMutation, useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";
import { download } from "../api/client.ts";
import { profileQuery } from "../api/queries.ts";
import { changePassword, deleteAccount, signOutEverywhere } from "../api/session.ts";
import { day } from "../format.ts";
import { usePlanName } from "../parts/plan-name.ts";
import { Button, Card, Facts, PageHeader } from "../ui/basics.tsx";
import { Confirm, Dialog, DialogForm } from "../ui/dialog.tsx";
import { FormErrorProvider, sending, TextField } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";

export function AccountPage() {
  const { data: profile } = useSuspenseQuery(profileQuery);
  const planName = usePlanName();
  const [open, setOpen] = useState<"leave" | "delete" | null>(null);
  const close = () => setOpen(null);
  return (
    <>
      <PageHeader title="Your account" />
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <div className="space-y-4">
          <Card title="Profile">
            <Facts
              facts={[
                ["E-mail", profile.email],
                ["Member since", day(profile.created_at)],
                ["Plan", profile.plan === null ? (profile.is_trial ? "Trial" : "None") : planName(profile.plan)],
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
              If you left a session open on another computer, end all sessions, also this one.
            </p>
            <Button onClick={() => setOpen("leave")}>Sign out everywhere</Button>
          </Card>
        </div>
        <div className="space-y-4">
          <PasswordCard />
          <DataCard />
          <Card title="Delete account">
            <p className="mb-3 text-muted">
              This deletes your agents, secrets, keys and tokens, and ends your plan. Download your data first.
            </p>
            <Button kind="danger" onClick={() => setOpen("delete")}>
              Delete account
            </Button>
          </Card>
        </div>
      </div>
      {open === "leave" && (
        <Confirm
          title="Sign out everywhere?"
          action="Sign out everywhere"
          onClose={close}
          onConfirm={signOutEverywhere}
        >
          Every browser must sign in again. API keys and schedules keep working.
        </Confirm>
      )}
      {open === "delete" && <DeleteAccount email={profile.email} onClose={close} />}
    </>
  );
}

function DeleteAccount({ email, onClose }: { email: string; onClose: () => void }) {
  const [password, setPassword] = useState("");
  const erasure = useMutation({ mutationFn: () => deleteAccount(password) });
  return (
    <Dialog title={`Delete ${email}?`} onClose={onClose}>
      <DialogForm save={erasure} action="Delete account" onCancel={onClose} kind="danger">
        <p className="text-pretty text-muted">
          You lose your remaining tokens. This cannot be undone. The service keeps your ledger without your name.
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
      </DialogForm>
    </Dialog>
  );
}

function DataCard() {
  const save = useMutation({
    mutationFn: () => download("/api/v1/users/me/export", "purser-export.zip", { method: "POST" }),
    onSuccess: () => confirmSaved("Data downloaded"),
  });
  return (
    <Card
      title="Your data"
      note="A ZIP of JSON Lines and CSV files with all that is kept of you, except secret values."
    >
      {save.error !== null && <ProblemNotice error={save.error} />}
      <Button icon="download" busy={save.isPending} onClick={() => save.mutate()}>
        Download your data
      </Button>
    </Card>
  );
}

function PasswordCard() {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const change = useMutation({
    mutationFn: () => changePassword(current, next),
    onSuccess: () => {
      setCurrent("");
      setNext("");
      confirmSaved("Password changed");
    },
  });
  return (
    <Card title="Password" note="A new password ends your other sessions.">
      <FormErrorProvider value={change.error}>
        <form {...sending(change)} className="space-y-4">
          <TextField
            label="Current password"
            param="current_password"
            type="password"
            autoComplete="current-password"
            required
            value={current}
            onValue={setCurrent}
          />
          <TextField
            label="New password"
            param="new_password"
            type="password"
            autoComplete="new-password"
            required
            minLength={10}
            maxLength={200}
            value={next}
            onValue={setNext}
          />
          {change.error !== null && <ProblemNotice error={change.error} />}
          <Button type="submit" busy={change.isPending}>
            Change password
          </Button>
        </form>
      </FormErrorProvider>
    </Card>
  );
}
