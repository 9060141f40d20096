import { useSuspenseQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { profileQuery } from "../api/queries.ts";
import { changePassword, signOutEverywhere } from "../api/session.ts";
import { day } from "../format.ts";
import { useAct } from "../ui/act.ts";
import { Button, Callout, Card, Facts, PageHeader } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

export function AccountPage() {
  const { data: profile } = useSuspenseQuery(profileQuery);
  const [leaving, setLeaving] = useState(false);
  return (
    <>
      <PageHeader title="Your account" />
      <div className="grid items-start gap-4 lg:grid-cols-2">
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
        <PasswordCard />
        <Card title="Sessions">
          <p className="mb-3 text-muted">
            If you have signed in where you should not have, end every session, this one included.
          </p>
          <Button kind="danger" onClick={() => setLeaving(true)}>
            Sign out everywhere
          </Button>
        </Card>
      </div>
      {leaving && (
        <Confirm
          title="Sign out everywhere?"
          act="Sign out everywhere"
          onClose={() => setLeaving(false)}
          onAct={signOutEverywhere}
        >
          Every browser has to sign in again. API keys and schedules go on.
        </Confirm>
      )}
    </>
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
