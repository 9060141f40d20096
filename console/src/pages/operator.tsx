import { useMutation, useQuery } from "@tanstack/react-query";
import { Outlet, useRouterState } from "@tanstack/react-router";
import { Suspense, useEffect, useState } from "react";
import { call, keyInUse, whenPasswordNeeded } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import { profileQuery, stale } from "../api/queries.ts";
import { Button, Callout, Card, Empty, PageHeader, Skeleton, Tabs } from "../ui/basics.tsx";
import { CodeBlock } from "../ui/copy.tsx";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { onSubmit, TextField } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

const PARTS = [
  ["/operator", "Overview"],
  ["/operator/users", "Users"],
  ["/operator/runs", "Runs"],
  ["/operator/payments", "Payments"],
  ["/operator/acts", "Acts"],
  ["/operator/settings", "Settings"],
  ["/operator/setup", "Set-up"],
] as const;

/** The section of operators: accounts with a role, each after a second look at its password. */
export function OperatorPage() {
  const path = useRouterState({ select: ({ location }) => location.pathname });
  const { data: profile } = useQuery({ ...profileQuery, enabled: false });
  if (profile === undefined) return <Skeleton lines={6} />;
  if (keyInUse() !== null) {
    return (
      <Empty icon="person" title="Operators sign in with their password">
        An API key never opens this section. Forget the key, and sign in.
      </Empty>
    );
  }
  if (profile.operator_role === null) return <BecomeOperator id={profile.id} />;
  const isChosen = (to: string) => (to === "/operator" ? /^\/operator\/?$/.test(path) : path.startsWith(to));
  return (
    <>
      <Tabs
        label="Parts of the operator's section"
        tabs={PARTS.map(([to, name]) => ({ name, to, chosen: isChosen(to), search: {} }))}
      />
      <Suspense fallback={<Skeleton lines={6} />}>
        <Outlet />
      </Suspense>
      <PasswordDialog />
    </>
  );
}

/** A key for a service that has none. */
const createKey = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(24)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Gives the signed-in account the role `admin`, by an operator key that no later request uses. */
function BecomeOperator({ id }: { id: string }) {
  const [key, setKey] = useState("");
  const [new_key] = useState(createKey);
  const become = useMutation({
    mutationFn: () =>
      call("PATCH /api/v1/admin/users/{id}", { key: key.trim(), params: { id }, body: { operator_role: "admin" } }),
    onSuccess: () => stale("profile"),
  });
  // Without PURSER_ADMIN_KEY the operator API does not exist.
  const has_no_key = become.error !== null && asProblem(become.error).status === 404;
  return (
    <div className="max-w-md">
      <PageHeader
        title="Operator"
        note="Your account is not an operator. Another operator can give it a role, or you enter an operator key once."
      />
      <Card>
        <form onSubmit={onSubmit(become.mutate)} className="space-y-4">
          <TextField
            label="Operator key"
            type="password"
            autoComplete="off"
            required
            value={key}
            onValue={setKey}
            hint="PURSER_ADMIN_KEY, or a named key with the role admin. It is used for this request only."
          />
          {has_no_key && (
            <Callout tone="warn" icon="warning">
              This service was started without an operator key, so it takes none. Set the key below.
            </Callout>
          )}
          {become.error !== null && !has_no_key && <ProblemNotice error={become.error} />}
          <Button type="submit" kind="primary" busy={become.isPending} className="w-full">
            Make my account an operator
          </Button>
        </form>
        <details className="mt-4" open={has_no_key}>
          <summary className="link w-fit">You run this service, and it has no operator key yet?</summary>
          <p className="my-2">
            Set this variable where the service starts, start the service again, and enter the key above. Keep the key
            in a safe place.
          </p>
          <CodeBlock name="New key" text={`PURSER_ADMIN_KEY=${new_key}`} />
        </details>
      </Card>
    </div>
  );
}

/** Asks for the password when a request of an operator needs it. The request goes on afterwards. */
function PasswordDialog() {
  const [answer, setAnswer] = useState<{ with: (is_confirmed: boolean) => void } | null>(null);
  const [password, setPassword] = useState("");
  useEffect(() => whenPasswordNeeded(() => new Promise((resolve) => setAnswer({ with: resolve }))), []);
  useEffect(() => () => answer?.with(false), [answer]);
  const close = () => {
    setPassword("");
    setAnswer(null);
  };
  const confirm = useMutation({
    mutationFn: () => call("POST /api/v1/auth/confirm-password", { body: { password } }),
    onSuccess: () => {
      answer?.with(true);
      close();
    },
  });
  if (answer === null) return null;
  return (
    <Dialog title="Confirm your password" onClose={close}>
      <DialogForm save={confirm} action="Confirm password" onCancel={close}>
        <p className="text-muted">
          An operator can read and change the accounts of others. Your password is asked for every 30 minutes.
        </p>
        <TextField
          label="Password"
          param="password"
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
