import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useRouterState, useSearch } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { sessionQuery } from "../api/queries.ts";
import {
  inside,
  requestPasswordReset,
  resetPassword,
  signIn,
  signInWithKey,
  signUp,
  verifyEmail,
} from "../api/session.ts";
import { Button, Callout } from "../ui/basics.tsx";
import { FormErrorProvider, sending, TextField } from "../ui/fields.tsx";
import { Logo } from "../ui/icons.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

/** Pages that need no sign-in: sign-in, sign-up, verification and password reset. */

function Frame({ title, children, foot }: { title: string; children: ReactNode; foot: ReactNode }) {
  return (
    <div className="grid min-h-dvh place-items-center px-4 py-10">
      <main className="w-full max-w-sm">
        <title>{`${title} · Purser`}</title>
        <div className="mb-6 flex flex-col items-center gap-3 text-center">
          <Logo className="size-11" />
          <h1 className="text-xl font-semibold tracking-tight">{title}</h1>
        </div>
        <div className="rounded-xl border border-line bg-panel p-5 shadow-sm">{children}</div>
        <div className="mt-4 space-y-1 text-center text-muted">{foot}</div>
      </main>
    </div>
  );
}

interface FormProps {
  act: string;
  onAct: () => Promise<unknown>;
  children: ReactNode;
}
function Form({ act: label, onAct, children }: FormProps) {
  const submission = useMutation({ mutationFn: onAct });
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => form.current?.querySelector("input")?.focus(), []);
  return (
    <form ref={form} {...sending(submission)} className="space-y-4">
      <FormErrorProvider value={submission.error}>
        {children}
        {submission.error !== null && <ProblemNotice error={submission.error} />}
      </FormErrorProvider>
      <Button type="submit" kind="primary" busy={submission.isPending} className="w-full">
        {label}
      </Button>
    </form>
  );
}

/** The typed address, which stays when the person opens another of these pages. */
let typed_email = "";
function useEmail() {
  const [email, setEmail] = useState(typed_email);
  const change = (text: string) => {
    typed_email = text;
    setEmail(text);
  };
  return [email, change] as const;
}

export function SignInPage() {
  const { next } = useSearch({ strict: false });
  const navigate = useNavigate();
  const [with_key, setWithKey] = useState(false);
  const [email, setEmail] = useEmail();
  const [password, setPassword] = useState("");
  const [key, setKey] = useState("");
  const enter = async () => {
    await (with_key ? signInWithKey(key.trim()) : signIn({ email, password }));
    typed_email = "";
    await navigate({ to: inside(next), replace: true });
  };
  const foot = (
    <p>
      New here?{" "}
      <Link to="/sign-up" search={next === undefined ? {} : { next }} className="link">
        Create an account
      </Link>
    </p>
  );
  return (
    <Frame title="Sign in to Purser" foot={foot}>
      {next !== undefined && (
        <div className="mb-4">
          <Callout tone="accent" icon="clock">
            Sign in to continue.
          </Callout>
        </div>
      )}
      <Form act={with_key ? "Use this key" : "Sign in"} onAct={enter}>
        {with_key ? (
          <TextField
            label="API key"
            type="password"
            autoComplete="off"
            required
            value={key}
            onValue={setKey}
            placeholder="purser_live_…"
            hint="Only this tab's memory holds it. A reload removes it."
          />
        ) : (
          <>
            <TextField label="E-mail" type="email" autoComplete="username" required value={email} onValue={setEmail} />
            <TextField
              label="Password"
              type="password"
              autoComplete="current-password"
              required
              value={password}
              onValue={setPassword}
            />
          </>
        )}
      </Form>
      <div className="mt-4 flex justify-between text-sm">
        <button type="button" className="link" onClick={() => setWithKey(!with_key)}>
          {with_key ? "Use e-mail and password" : "Use an API key"}
        </button>
        <Link to="/forgot-password" className="link">
          Forgot the password?
        </Link>
      </div>
    </Frame>
  );
}

const back = (
  <p>
    Have an account?{" "}
    <Link to="/sign-in" className="link">
      Sign in
    </Link>
  </p>
);

interface LinkSentProps {
  email: string;
  delivery: "mail" | "log";
  /** Returns to the form, which keeps the address. */
  onBack: () => void;
  children: ReactNode;
}

/** Says where the person finds the link, and how to get another one. */
function LinkSent({ email, delivery, onBack, children }: LinkSentProps) {
  return (
    <div className="space-y-3 text-pretty" role="status">
      <p>
        {delivery === "mail" ? (
          <>
            We have sent a link to <strong className="wrap-anywhere">{email}</strong>.
          </>
        ) : (
          "This service has no mail server. The operator finds your link in the service's log."
        )}{" "}
        {children}
      </p>
      <p className="text-muted">
        {delivery === "mail" ? "No mail? Look in your spam folder, or " : "Is the address wrong? Then "}
        <button type="button" className="link" onClick={onBack}>
          send another link
        </button>
        .
      </p>
    </div>
  );
}

export function SignUpPage() {
  const entered = useEntered();
  const { data: here } = useQuery(sessionQuery);
  const [email, setEmail] = useEmail();
  const [password, setPassword] = useState("");
  const [sent, setSent] = useState<"mail" | "log" | null>(null);
  const by_link = here?.verification !== "none";
  const create = async () => {
    const answer = await signUp(by_link ? { email } : { email, password });
    if (!("user" in answer)) return setSent(answer.delivery);
    typed_email = "";
    await entered.enter(answer.trial);
  };
  if (entered.without_trial) return <WithoutTrial />;
  if (here?.signup === "closed") {
    return (
      <Frame title="Sign-up is closed" foot={back}>
        <p className="text-pretty">Accounts on this service are made by its operator. Ask for one.</p>
      </Frame>
    );
  }
  if (sent !== null) {
    return (
      <Frame title="Confirm your address" foot={back}>
        <LinkSent email={email} delivery={sent} onBack={() => setSent(null)}>
          Open it and set your password: then your account is made.
        </LinkSent>
      </Frame>
    );
  }
  return (
    <Frame title="Create your account" foot={back}>
      <Form act="Create account" onAct={create}>
        <TextField
          label="E-mail"
          param="email"
          type="email"
          autoComplete="username"
          required
          value={email}
          onValue={setEmail}
        />
        {by_link ? (
          <p className="text-pretty text-muted">A link confirms this address. You set your password on its page.</p>
        ) : (
          <NewPassword label="Password" param="password" value={password} onValue={setPassword} />
        )}
      </Form>
    </Frame>
  );
}

/** Where a new user goes: the page that they wanted, or first the one that tells why the account begins without tokens. */
function useEntered() {
  const { next } = useSearch({ strict: false });
  const navigate = useNavigate();
  const [without_trial, setWithoutTrial] = useState(false);
  const enter = async (trial: "granted" | "used_before") => {
    if (trial === "granted") await navigate({ to: inside(next), replace: true });
    else setWithoutTrial(true);
  };
  return { enter, without_trial };
}

function WithoutTrial() {
  const navigate = useNavigate();
  return (
    <Frame title="Your account has no trial" foot={null}>
      <Form act="Continue" onAct={() => navigate({ to: "/", replace: true })}>
        <p className="text-pretty">
          Your account is made, and you are signed in. Each mailbox gets one trial, and this one had its trial before,
          so the balance is 0. Buy tokens or subscribe to a plan to use models.
        </p>
      </Form>
    </Frame>
  );
}

function NewPassword(props: { label: string; param: string; value: string; onValue: (value: string) => void }) {
  return (
    <TextField
      {...props}
      type="password"
      autoComplete="new-password"
      required
      minLength={10}
      maxLength={200}
      hint="At least 10 characters. Long is better than strange."
    />
  );
}

/** The token of a link from an e-mail. It follows the `#`, which browsers do not send to a server. */
const useLinkToken = () =>
  useRouterState({ select: (state) => new URLSearchParams(state.location.hash).get("token") ?? "" });

/** The foot of a page that a mailed link opens: the way to another link, for one that is too old. */
function AskAgain({ to }: { to: "/sign-up" | "/forgot-password" }) {
  return (
    <>
      <p>
        Is the link too old?{" "}
        <Link to={to} className="link">
          Ask for a new one
        </Link>
      </p>
      {back}
    </>
  );
}

/** Replaces such a page if its address has no token, as when a mail program has cut the link. */
function CutLink({ to }: { to: "/sign-up" | "/forgot-password" }) {
  return (
    <Frame title="This link is not complete" foot={<AskAgain to={to} />}>
      <p className="text-pretty">Copy the whole link from the mail into the address bar, or ask for a new one.</p>
    </Frame>
  );
}

/** Where the link of a sign-up leads. The person who opens it chooses the password. */
export function VerifyEmailPage() {
  const token = useLinkToken();
  const entered = useEntered();
  const [password, setPassword] = useState("");
  if (entered.without_trial) return <WithoutTrial />;
  if (token === "") return <CutLink to="/sign-up" />;
  return (
    <Frame title="Set your password" foot={<AskAgain to="/sign-up" />}>
      <Form
        act="Set the password and enter"
        onAct={() => verifyEmail(token, password).then(({ trial }) => entered.enter(trial))}
      >
        <p className="text-pretty text-muted">This confirms your address and makes your account.</p>
        <NewPassword label="Password" param="password" value={password} onValue={setPassword} />
      </Form>
    </Frame>
  );
}

export function ForgotPasswordPage() {
  const [email, setEmail] = useEmail();
  const [sent, setSent] = useState<"mail" | "log" | null>(null);
  return (
    <Frame title="Reset your password" foot={back}>
      {sent === null ? (
        <Form act="Send me a link" onAct={() => requestPasswordReset(email).then(({ delivery }) => setSent(delivery))}>
          <TextField
            label="E-mail"
            param="email"
            type="email"
            autoComplete="username"
            required
            value={email}
            onValue={setEmail}
          />
        </Form>
      ) : (
        <LinkSent email={email} delivery={sent} onBack={() => setSent(null)}>
          It sets a new password, if there is an account with this address.
        </LinkSent>
      )}
    </Frame>
  );
}

export function ResetPasswordPage() {
  const token = useLinkToken();
  const navigate = useNavigate();
  const [password, setPassword] = useState("");
  if (token === "") return <CutLink to="/forgot-password" />;
  return (
    <Frame title="Set a new password" foot={<AskAgain to="/forgot-password" />}>
      <Form
        act="Set the password and enter"
        onAct={() => resetPassword(token, password).then(() => navigate({ to: "/", replace: true }))}
      >
        <NewPassword label="New password" param="new_password" value={password} onValue={setPassword} />
      </Form>
    </Frame>
  );
}
