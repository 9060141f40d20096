import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useId, useState } from "react";
import { call } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import { type Action, type Decided, queryClient, type RunDetail, runQuery, stale } from "../api/queries.ts";
import { ago, count, dollars, instant } from "../format.ts";
import { inWords } from "../service-words.ts";
import { Badge, Button, buttonClass, type Tone } from "../ui/basics.tsx";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { AreaField } from "../ui/fields.tsx";
import { Icon } from "../ui/icons.tsx";
import { Json } from "../ui/json.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { ArgumentFields, argumentDraft, argumentsOf } from "./argument-fields.tsx";

/** What a run asks its user, and the decision about it. */

/** A run that waits. A list has no steps, and so no text that the agent had read. */
export type WaitingRun = Pick<RunDetail, "id" | "agent_id" | "required_actions"> &
  Partial<Pick<RunDetail, "steps" | "input">>;

/** The arguments of a call by their names. */
const argumentsByName = (given: unknown) => (given ?? {}) as Record<string, unknown>;

interface Answered {
  run: WaitingRun;
  action: Action;
  decision: "approve" | "edit" | "reject";
  arguments?: Record<string, unknown>;
  reason?: string;
}

const CONFIRMED = { approve: "Approved", edit: "Approved with your changes", reject: "Rejected" } as const;

/** The decisions of a page, which shows the error of the last one: the action itself may be gone by then. */
export function useDecide() {
  return useMutation({
    mutationFn: ({ run, action, decision, arguments: given, reason }: Answered) =>
      call("POST /api/v1/agents/{id}/runs/{run_id}/actions/{action_id}", {
        params: { id: run.agent_id, run_id: run.id, action_id: action.id },
        body: {
          decision,
          ...(given !== undefined && { arguments: given }),
          ...(reason !== undefined && { reason }),
        },
      }),
    onSuccess: (run, { decision }) => {
      queryClient.setQueryData(runQuery(run.agent_id, run.id).queryKey, run);
      confirmSaved(CONFIRMED[decision]);
    },
    // Also after a failure: the action may be decided or expired by now.
    onSettled: async () => {
      const still = new Promise((resolve) => setTimeout(resolve, STILL_MS));
      await stale("runs");
      // The button with the focus may be gone.
      if (document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true });
      await still;
    },
  });
}

/** Buttons rest for the time of a double click, because the next call moves to the place of the one that was decided. */
const STILL_MS = 500;

export type Decide = ReturnType<typeof useDecide>;

/** Why the last decision failed. A form shows what is wrong in its fields. */
export function DecideProblem({ decide: { error } }: { decide: Decide }) {
  return error === null || asProblem(error).status === 400 ? null : <ProblemNotice error={error} />;
}

interface ActionsProps {
  run: WaitingRun;
  decide: Decide;
  /** In a list: long arguments scroll, and a link leads to the page with the rest. */
  compact?: boolean;
}

/** All that a run asks, one card each. */
export function RequiredActions({ run, decide, compact = false }: ActionsProps) {
  return (
    <div className="space-y-4">
      {run.required_actions.map((action) => (
        <ActionCard key={action.id} run={run} action={action} decide={decide} compact={compact} />
      ))}
    </div>
  );
}

interface CardProps {
  run: WaitingRun;
  action: Action;
  decide: Decide;
  compact: boolean;
}

/** One call with its reason, what the agent had read before, and the buttons. */
function ActionCard({ run, action, decide, compact }: CardProps) {
  const title_id = useId();
  const is_call = action.type === "tool_approval";
  // In the inbox the agent's name is above it.
  const Title = compact ? "h4" : "h2";
  const sources = run.steps === undefined ? [] : action.untrusted_sources;
  return (
    <article aria-labelledby={title_id} className="rounded-xl border border-line bg-panel">
      <div className={`grid gap-x-6 gap-y-4 p-4 ${sources.length > 0 ? "lg:grid-cols-2" : ""}`}>
        <div className="min-w-0 space-y-3">
          <div>
            <Title id={title_id} className="font-semibold wrap-anywhere">
              {is_call ? `Call ${action.tool}` : "More tokens"}
            </Title>
            {action.destination !== null && (
              <p className="text-sm wrap-anywhere text-muted">
                to <Exact text={action.destination} />
              </p>
            )}
          </div>
          <p className="wrap-anywhere">
            <span className="sr-only">Why it asks: </span>
            {inWords(action.reason)}
          </p>
          {is_call && <CallArguments value={action.arguments} compact={compact} />}
          <p className="text-sm text-muted">
            Spent so far: {count(action.spent.tokens, "token")}
            {action.spent.tokens > 0 && `, worth ${dollars(action.spent.tokens)}`} · <Deadline action={action} />
          </p>
        </div>
        {sources.length > 0 && (
          <div className="min-w-0 space-y-2">
            <h3 className="font-medium">What the agent had read before</h3>
            {sources.map(({ step, source }) => (
              <OutsideText key={`${step} ${source}`} source={source} step={step} run={run} action={action} />
            ))}
          </div>
        )}
      </div>
      <div className="flex flex-wrap gap-2 border-t border-line px-4 py-3">
        {is_call ? (
          <CallButtons run={run} action={action} decide={decide} title_id={title_id} />
        ) : (
          <BudgetButtons run={run} action={action} decide={decide} title_id={title_id} />
        )}
        {compact && (
          <Link
            to="/agents/$id/runs/$run_id/decide"
            params={{ id: run.agent_id, run_id: run.id }}
            className={buttonClass("quiet", "ml-auto")}
            aria-describedby={title_id}
          >
            View details
          </Link>
        )}
      </div>
    </article>
  );
}

function Deadline({ action: { expires_at } }: { action: Action }) {
  return (
    <span title={instant(expires_at)}>
      {Date.parse(expires_at) > Date.now() ? `expires ${ago(expires_at)}` : `expired ${ago(expires_at)}`}
    </span>
  );
}

interface ButtonsProps {
  run: WaitingRun;
  action: Action;
  decide: Decide;
  title_id: string;
}

const isUnderWay = ({ isPending, variables }: Decide, { id }: Action) => isPending && variables?.action.id === id;

function ApproveButton({ run, action, decide, title_id, children }: ButtonsProps & { children: ReactNode }) {
  // The arguments that the person saw are sent along, so that no others are approved.
  const shown = action.type === "tool_approval" ? { arguments: argumentsByName(action.arguments) } : {};
  return (
    <Button
      kind="primary"
      icon="check"
      busy={isUnderWay(decide, action)}
      disabled={decide.isPending}
      aria-describedby={title_id}
      onClick={() => decide.mutate({ run, action, decision: "approve", ...shown })}
    >
      {children}
    </Button>
  );
}

function CallButtons(buttons: ButtonsProps) {
  const { run, action, decide, title_id } = buttons;
  const [open, setOpen] = useState<"edit" | "reject" | null>(null);
  const close = () => setOpen(null);
  return (
    <>
      <ApproveButton {...buttons}>Approve call</ApproveButton>
      <Button disabled={decide.isPending} aria-describedby={title_id} onClick={() => setOpen("edit")}>
        Edit call
      </Button>
      <Button kind="danger" disabled={decide.isPending} aria-describedby={title_id} onClick={() => setOpen("reject")}>
        Reject call
      </Button>
      {open === "edit" && <EditDialog run={run} action={action} decide={decide} onClose={close} />}
      {open === "reject" && (
        <RejectDialog
          title={`Reject the call of ${action.tool}?`}
          verb="Reject call"
          hint="The agent reads it, and goes on without this call."
          run={run}
          action={action}
          decide={decide}
          onClose={close}
        />
      )}
    </>
  );
}

interface DialogProps {
  run: WaitingRun;
  action: Action;
  decide: Decide;
  onClose: () => void;
}

/** Decides in a dialog, which closes also if the action can no longer be decided: the page says so. */
function useDialogDecision({ decide, onClose }: Pick<DialogProps, "decide" | "onClose">, answer: () => Answered) {
  return useMutation({
    mutationFn: () => decide.mutateAsync(answer()),
    onSuccess: onClose,
    onError: (error) => {
      if (asProblem(error).status === 409) onClose();
    },
  });
}

function EditDialog({ run, action, decide, onClose }: DialogProps) {
  const given = argumentsByName(action.arguments);
  const [draft, setDraft] = useState(() => argumentDraft(given));
  const save = useDialogDecision({ decide, onClose }, () => ({
    run,
    action,
    decision: "edit",
    arguments: argumentsOf(given, draft),
  }));
  return (
    <Dialog title={`Edit the call of ${action.tool}`} onClose={onClose} wide>
      <DialogForm save={save} action="Approve edited call" onCancel={onClose}>
        <ArgumentFields given={given} draft={draft} onDraft={setDraft} />
      </DialogForm>
    </Dialog>
  );
}

function RejectDialog({
  run,
  action,
  decide,
  onClose,
  title,
  verb,
  hint,
}: DialogProps & Record<"title" | "verb" | "hint", string>) {
  const [reason, setReason] = useState("");
  const save = useDialogDecision({ decide, onClose }, () => ({
    run,
    action,
    decision: "reject",
    ...(reason.trim() !== "" && { reason: reason.trim() }),
  }));
  return (
    <Dialog title={title} onClose={onClose}>
      <DialogForm save={save} action={verb} kind="danger" onCancel={onClose}>
        <AreaField
          label="Reason (optional)"
          param="reason"
          rows={2}
          maxLength={2000}
          value={reason}
          onValue={setReason}
          hint={hint}
        />
      </DialogForm>
    </Dialog>
  );
}

function BudgetButtons(buttons: ButtonsProps) {
  const { run, action, decide, title_id } = buttons;
  const [stopping, setStopping] = useState(false);
  const { limit, added_tokens = null } = action.budget ?? {};
  return (
    <>
      <ApproveButton {...buttons}>
        {added_tokens === null ? "Try again now" : `Allow ${count(added_tokens, "more token", "more tokens")}`}
      </ApproveButton>
      {limit === "balance" ? (
        <Link to="/billing" search={{ top_up: true }} className={buttonClass()}>
          Buy tokens
        </Link>
      ) : (
        <Link
          to="/agents/$id/edit"
          params={{ id: run.agent_id }}
          search={{ field: limit === "month" ? "limits.max_cost_tokens_per_month" : "limits.max_cost_tokens_per_run" }}
          className={buttonClass()}
        >
          Raise the limit
        </Link>
      )}
      <Button
        kind="danger"
        icon="stop"
        disabled={decide.isPending}
        aria-describedby={title_id}
        onClick={() => setStopping(true)}
      >
        Stop run
      </Button>
      {stopping && (
        <RejectDialog
          title="Stop the run?"
          verb="Stop run"
          hint="The run fails. Its usage so far is billed."
          run={run}
          action={action}
          decide={decide}
          onClose={() => setStopping(false)}
        />
      )}
    </>
  );
}

/** Characters that are not drawn, or that change the order of the text around them. */
const HIDDEN = /[^\P{C}\n\t\u200c\u200d]|[\u{115f}\u{1160}\u{3164}\u{ffa0}]/u;
const HIDDEN_PARTS = new RegExp(`(${HIDDEN.source})`, "u");
const codePoint = (char: string) => `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;

/** A text with its hidden characters named, so that a person sees what is sent. */
function Exact({ text }: { text: string }) {
  return text.split(HIDDEN_PARTS).map((part, place) =>
    HIDDEN.test(part) ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no id
      <span key={place} className="rounded bg-warn-soft px-1 text-xs text-warn" title="A character that is not drawn">
        {codePoint(part)}
      </span>
    ) : (
      part
    ),
  );
}

/** The arguments of a call, one row each, and as JSON. */
function CallArguments({ value, compact }: { value: unknown; compact: boolean }) {
  const rows = Object.entries(argumentsByName(value));
  return (
    <div className="space-y-2">
      {rows.length === 0 && <p className="text-muted">Without arguments.</p>}
      {rows.length > 0 && (
        <dl
          tabIndex={0}
          className={`space-y-1.5 overflow-auto rounded-lg bg-sunken px-3 py-2.5 ${compact ? "max-h-40" : "max-h-[40rem]"}`}
        >
          {rows.map(([name, given]) => (
            <div key={name}>
              <dt className="text-sm text-muted">
                <Exact text={name} />
              </dt>
              <dd dir="auto" className="wrap-anywhere whitespace-pre-wrap">
                <Exact text={typeof given === "string" ? given : JSON.stringify(given, null, 2)} />
              </dd>
            </div>
          ))}
        </dl>
      )}
      {!compact && rows.length > 0 && (
        <details>
          <summary className="w-fit text-sm text-muted hover:text-ink">As JSON</summary>
          <div className="mt-2">
            <Json label="Arguments as JSON" value={value} />
          </div>
        </details>
      )}
    </div>
  );
}

/** The lines around a text from outside, for the model. */
const FENCES = /\[[0-9a-f]{24} [^\]]*\]\n?/g;
/** A longer text is on the page of the run. */
const SHOWN_CHARS = 20_000;

/** What a run can begin with that is its input. */
const INPUTS = ["the end user's input", "the trigger's delivery"];

/** What a run had read at a step, or began with; null: its page shows it among what the model was sent. */
function textRead(run: WaitingRun, { step, source }: Action["untrusted_sources"][number]): string | null {
  const begun = INPUTS.includes(source) ? run.input : null;
  const read = step === null ? begun : run.steps?.find(({ index }) => index === step)?.result;
  if (read == null) return null;
  return (typeof read === "string" ? read : JSON.stringify(read, null, 2)).replaceAll(FENCES, "").trim();
}

/** Arguments this short occur in a text by chance. */
const MARKED_CHARS = 4;

/** The strings in a value. */
function stringsIn(value: unknown): string[] {
  if (typeof value === "string") return value.length < MARKED_CHARS ? [] : [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(stringsIn) : [];
}

const escaped = (part: string) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");

interface OutsideProps {
  run: WaitingRun;
  action: Action;
  source: string;
  step: number | null;
}

/** A text that the agent had read, with the parts that are in the call too. */
function OutsideText({ run, action, source, step }: OutsideProps) {
  const text = textRead(run, { step, source });
  const shown = (text ?? "").slice(0, SHOWN_CHARS);
  const parts = stringsIn(action.arguments).sort((one, other) => other.length - one.length);
  const found = new Set(parts.filter((part) => shown.includes(part)));
  const pieces = found.size === 0 ? [shown] : shown.split(new RegExp(`(${[...found].map(escaped).join("|")})`));
  return (
    <figure className="overflow-hidden rounded-lg border border-warn/40">
      <figcaption className="flex items-start gap-2 bg-warn-soft px-3 py-2 text-sm text-warn">
        <Icon name="warning" className="mt-0.5 size-4" />
        <span className="min-w-0 wrap-anywhere">
          <strong className="font-semibold">Text from outside</strong>, from {source}
          {step !== null && ` (step ${step + 1})`}
          {found.size > 0 && ". The marked words are in the call too"}
          {text === null && ". The run's page has it, in “Sent to the model”"}
        </span>
      </figcaption>
      <blockquote
        dir="auto"
        aria-label={`Text from ${source}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls long texts
        tabIndex={0}
        className="max-h-72 overflow-auto px-3 py-2.5 text-sm wrap-anywhere whitespace-pre-wrap empty:hidden"
      >
        {pieces.map((piece, place) =>
          found.has(piece) ? (
            // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no id
            <mark key={place} className="rounded bg-warn-soft px-0.5 font-medium text-ink">
              {piece}
            </mark>
          ) : (
            piece
          ),
        )}
      </blockquote>
    </figure>
  );
}

const OUTCOMES: Record<Decided["decision"], { name: string; tone: Tone }> = {
  approved: { name: "approved", tone: "good" },
  edited: { name: "approved with changes", tone: "good" },
  rejected: { name: "rejected", tone: "bad" },
  expired: { name: "expired without a decision", tone: "warn" },
  cancelled: { name: "cancelled with the run", tone: "neutral" },
};

function decider({ decided_by }: Decided): string {
  if (decided_by === null) return "";
  const { type, name } = decided_by;
  if (type === "api_key") return ` by the API key ${name ?? "of a program"}`;
  return ` by ${name ?? "you"}${type === "mcp" ? " in an MCP client" : ""}`;
}

/** The decision about an action, with who made it and when. */
export function DecisionCard({ decided }: { decided: Decided }) {
  const { name, tone } = OUTCOMES[decided.decision];
  return (
    <li className="rounded-xl border border-line bg-panel px-4 py-2.5">
      <p className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <span className="rounded-md bg-sunken p-1 text-muted">
          <Icon name="person" />
        </span>
        <span className="min-w-0 font-medium wrap-anywhere">
          {decided.type === "budget" ? "More tokens" : `Call ${decided.tool}`}
        </span>
        <Badge tone={tone}>{name}</Badge>
        <span className="text-sm text-muted">
          {instant(decided.decided_at)}
          {decider(decided)}
        </span>
      </p>
      <details className="mt-1.5">
        <summary className="w-fit text-sm text-muted hover:text-ink">What it asked</summary>
        <div className="mt-2 space-y-2">
          <p className="wrap-anywhere">{inWords(decided.reason)}</p>
          {decided.arguments !== null && <CallArguments value={decided.arguments} compact />}
          {decided.decision === "edited" && (
            <>
              <p className="font-medium">Sent instead</p>
              <CallArguments value={decided.arguments_sent} compact />
            </>
          )}
        </div>
      </details>
      {decided.reason_given !== null && (
        <p className="mt-1.5 wrap-anywhere">
          Reason: <q>{decided.reason_given}</q>
        </p>
      )}
    </li>
  );
}
