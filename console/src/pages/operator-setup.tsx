import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { call, download } from "../api/client.ts";
import { overviewQuery, profileQuery, stale } from "../api/queries.ts";
import { instant, money } from "../format.ts";
import { type Overview, type Provider, usedProviders } from "../parts/operator-health.ts";
import { Badge, Button, Callout, Card, PageHeader } from "../ui/basics.tsx";
import { CodeBlock } from "../ui/copy.tsx";
import { onSubmit, TextField } from "../ui/fields.tsx";
import { ProblemNotice, Unloaded } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";

type Step = Overview["setup"][number];

/** The first set-up of a service: what is done, what to set for the rest, and a test of each part. */
export function OperatorSetupPage() {
  const overview = useQuery(overviewQuery());
  const { data } = overview;
  const check = useMutation({
    mutationFn: () => stale("operator", "models", "plans"),
    onSuccess: () => confirmSaved("Checked"),
  });
  return (
    <>
      <PageHeader
        title="Set-up"
        note={
          <>
            Six steps. Set the variables where the service starts, and start it again: in the shell before{" "}
            <code>purser start</code>, in <code>/etc/purser/env</code> of Debian's package, or in Compose's{" "}
            <code>.env</code>.
          </>
        }
      >
        <Button busy={check.isPending} onClick={() => check.mutate()}>
          Check again
        </Button>
      </PageHeader>
      {data === undefined ? <Unloaded {...overview} /> : <Steps overview={data} />}
    </>
  );
}

function Steps({ overview }: { overview: Overview }) {
  const stateOf = (step: Step["step"]) => overview.setup.find((each) => each.step === step)?.state ?? "to_do";
  const done = overview.setup.filter(({ state }) => state !== "to_do").length;
  return (
    <div className="space-y-4">
      {done === overview.setup.length ? (
        <Callout tone="good" icon="check">
          <strong className="font-semibold">The service is set up.</strong> Next,{" "}
          <Link to="/operator/users" className="underline">
            create a user
          </Link>{" "}
          or{" "}
          <Link to="/agents/new" className="underline">
            an agent of your own
          </Link>
          . You can test each part again at any time.
        </Callout>
      ) : (
        <p>
          {done} of {overview.setup.length} steps are done.
        </p>
      )}
      <AdminStep state={stateOf("admin")} />
      <ProviderStep state={stateOf("provider")} overview={overview} />
      <PaymentsStep state={stateOf("payments")} payments={overview.payments} />
      <MailStep state={stateOf("mail")} mail={overview.mail} />
      <SignUpStep state={stateOf("sign_up")} />
      <BackupStep state={stateOf("backup")} backup={overview.backup} />
    </div>
  );
}

const STATES = {
  done: ["good", "Done"],
  to_do: ["warn", "To do"],
  not_wanted: ["neutral", "Not wanted"],
} as const;

interface StepProps {
  title: string;
  state: Step["state"];
  children: ReactNode;
}
function StepCard({ title, state, children }: StepProps) {
  const [tone, name] = STATES[state];
  return (
    <Card title={title} actions={<Badge tone={tone}>{name}</Badge>}>
      <div className="space-y-3">{children}</div>
    </Card>
  );
}

type StateProps = Pick<StepProps, "state">;

function AdminStep({ state }: StateProps) {
  const { data: profile } = useQuery({ ...profileQuery, enabled: false });
  return (
    <StepCard title="1. An operator's account" state={state}>
      <p>
        {profile?.email} has the role “{profile?.operator_role}”.{" "}
        {state === "done"
          ? "Other people get a role on their page under Users; programs get a key under Settings."
          : "No account has the role “admin” yet: open this section with PURSER_ADMIN_KEY in an account of yours."}
      </p>
    </StepCard>
  );
}

/** Whether a test went well, and what is wrong. */
function Result({ ok, problem, children }: { ok: boolean; problem: string | null; children: ReactNode }) {
  return (
    <Callout tone={ok ? "good" : "bad"} icon={ok ? "check" : "warning"}>
      {ok ? children : problem}
    </Callout>
  );
}

function ProviderStep({ state, overview }: StateProps & { overview: Overview }) {
  const used = usedProviders(overview);
  const lines = overview.providers
    .filter(({ key }) => key === "not_set")
    .map(({ key_variable, name }) => `${key_variable}=…   # ${name}`);
  return (
    <StepCard title="2. A model provider" state={state}>
      {used.map((provider) => (
        <ProviderTest key={provider.name} provider={provider} />
      ))}
      {state === "to_do" && (
        <p>
          Until a provider is connected, agents answer with a script. Set one of these to the key that the provider gave
          you. For a server of your own, such as Ollama or vLLM, write it and its models into{" "}
          <a href="/docs/operating#the-file" className="link">
            a file
          </a>
          , and set PURSER_CONFIG to its path.
        </p>
      )}
      {state === "to_do" ? (
        <CodeBlock name="Keys of providers" text={lines.join("\n")} />
      ) : (
        lines.length > 0 && (
          <details>
            <summary className="link cursor-pointer">Connect another provider</summary>
            <div className="mt-2">
              <CodeBlock name="Keys of providers" text={lines.join("\n")} />
            </div>
          </details>
        )
      )}
    </StepCard>
  );
}

function ProviderTest({ provider: { name, key, key_variable } }: { provider: Provider }) {
  const test = useMutation({
    mutationFn: () => call("POST /api/v1/admin/providers/{name}/test", { params: { name }, body: {} }),
    onSettled: () => stale("operator"),
  });
  const { data } = test;
  return (
    <div className="space-y-2" aria-live="polite">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <span>
          <strong className="font-medium">{name}</strong>{" "}
          <span className="text-muted">{key === "not_needed" ? "needs no key" : `${key_variable} is set`}</span>
        </span>
        <Button busy={test.isPending} onClick={() => test.mutate()}>
          Test {name}
        </Button>
      </div>
      {test.error !== null && <ProblemNotice error={test.error} />}
      {data !== undefined && (
        <Result {...data}>
          {data.model_id} answered in {data.latency_ms} ms.{" "}
          {data.cost_micro_usd !== null && `The test cost you ${money(data.cost_micro_usd / 10_000, "usd")}.`}
        </Result>
      )}
      {data?.provider != null && (
        <p className="text-sm text-muted wrap-anywhere">
          {name} said: status {data.provider.status}
          {data.provider.code !== null && `, ${data.provider.code}`}
          {data.provider.message !== null && `, “${data.provider.message}”`}
        </p>
      )}
      {data === undefined && (
        <p className="text-sm text-muted">
          A test is one call of about 10 tokens of input and up to 16 of output, which the provider charges you.
        </p>
      )}
    </div>
  );
}

const STRIPE_LINES = "PURSER_PAYMENTS=stripe\nSTRIPE_SECRET_KEY=sk_…\nSTRIPE_WEBHOOK_SECRET=whsec_…";

function StripeLines() {
  return (
    <>
      <CodeBlock name="Payments through Stripe" text={STRIPE_LINES} />
      <p>
        In Stripe's dashboard, send{" "}
        <a href="/docs/operating#selling-tokens" className="link">
          these events
        </a>{" "}
        to <code className="text-sm break-all">{location.origin}/api/v1/billing/stripe/webhook</code>.
      </p>
    </>
  );
}

function PaymentsStep({ state, payments: { provider } }: StateProps & Pick<Overview, "payments">) {
  const test = useMutation({ mutationFn: () => call("POST /api/v1/admin/payments/test", { body: {} }) });
  return (
    <StepCard title="3. Payments" state={state}>
      {provider === "stripe" && <p>Users pay through Stripe.</p>}
      {provider === "sandbox" && (
        <p>Payments are simulated: anyone who can open this service gets tokens for nothing. That suits a trial.</p>
      )}
      {provider === "none" && <p>Users buy nothing here. You give them tokens on their page.</p>}
      {state === "to_do" && (
        <>
          <StripeLines />
          <p>
            To sell nothing, set <code className="text-sm">PURSER_PAYMENTS=none</code>; to keep simulated payments,{" "}
            <code className="text-sm">PURSER_PAYMENTS=sandbox</code>.
          </p>
        </>
      )}
      {state === "not_wanted" && (
        <details>
          <summary className="link cursor-pointer">Sell tokens through Stripe</summary>
          <div className="mt-2 space-y-3">
            <StripeLines />
          </div>
        </details>
      )}
      {provider === "stripe" && (
        <div className="space-y-2" aria-live="polite">
          <Button busy={test.isPending} onClick={() => test.mutate()}>
            Check payments
          </Button>
          {test.error !== null && <ProblemNotice error={test.error} />}
          {test.data !== undefined && <Result {...test.data}>Stripe accepts the key.</Result>}
        </div>
      )}
    </StepCard>
  );
}

function MailStep({ state, mail }: StateProps & Pick<Overview, "mail">) {
  const { data: profile } = useQuery({ ...profileQuery, enabled: false });
  const [to, setTo] = useState(profile?.email ?? "");
  const test = useMutation({
    mutationFn: () => call("POST /api/v1/admin/mail/test", { body: { to } }),
    onSettled: () => stale("operator"),
  });
  const lines = `SMTP_URL=smtp://user:password@mail.example:587\nMAIL_FROM=Purser <no-reply@${location.hostname}>\nPURSER_PUBLIC_URL=${location.origin}`;
  if (mail.delivery === "log") {
    return (
      <StepCard title="4. Mail" state={state}>
        <p>
          {state === "not_wanted"
            ? "Only people on this machine can open the service, and they sign up without a link in a mail."
            : "Without a mail server, the links of sign-ups and resets are in the log, and notices reach nobody by mail."}
        </p>
        <CodeBlock name="Mail" text={lines} />
      </StepCard>
    );
  }
  return (
    <StepCard title="4. Mail" state={state}>
      <p>Mails come from {mail.from}.</p>
      <form onSubmit={onSubmit(test.mutate)} className="flex flex-wrap items-end gap-2">
        <TextField
          label="Send a test mail to"
          type="email"
          required
          value={to}
          onValue={setTo}
          className="min-w-0 flex-1"
        />
        <Button type="submit" busy={test.isPending}>
          Send test mail
        </Button>
      </form>
      <div className="space-y-2 empty:hidden" aria-live="polite">
        {test.error !== null && <ProblemNotice error={test.error} />}
        {test.data !== undefined && (
          <Result {...test.data}>The mail server took the mail. Look whether it arrives, also among spam.</Result>
        )}
        {test.data?.answer != null && (
          <p className="text-sm text-muted wrap-anywhere">The mail server said: “{test.data.answer}”</p>
        )}
      </div>
    </StepCard>
  );
}

function SignUpStep({ state }: StateProps) {
  return (
    <StepCard title="5. Sign-up" state={state}>
      {state === "done" ? (
        <p>You chose who may sign up: PURSER_SIGNUP is set. Its value is under Settings.</p>
      ) : (
        <>
          <p>Anyone who can open this service may sign up, and gets a trial. Say that this is right, or close it.</p>
          <CodeBlock name="Sign-up" text={"PURSER_SIGNUP=closed   # only operators create users; or: open"} />
        </>
      )}
    </StepCard>
  );
}

function BackupStep({ state, backup }: StateProps & Pick<Overview, "backup">) {
  const save = useMutation({
    mutationFn: () =>
      download("/api/v1/admin/backup", `purser-backup-${new Date().toISOString().slice(0, 10)}.gz`, {
        method: "POST",
        body: "{}",
      }),
    onSuccess: async () => {
      confirmSaved("Backup downloaded");
      await stale("operator");
    },
  });
  return (
    <StepCard title="6. Backup" state={save.isSuccess ? "done" : state}>
      <p>
        {backup?.succeeded_at == null
          ? "Purser has made no backup yet."
          : `The last backup was made ${instant(backup.succeeded_at)}.`}{" "}
        A backup has everything but the master keys: keep PURSER_KEK, or the file “keyring” in DATA_DIR, in another
        place.
      </p>
      {save.error !== null && <ProblemNotice error={save.error} />}
      <Button icon="download" busy={save.isPending} onClick={() => save.mutate()}>
        Download backup
      </Button>
      <CodeBlock name="Every night, by cron" text="30 2 * * *  npx purser backup /backups/purser-$(date +\%F).gz" />
    </StepCard>
  );
}
