import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import type { RunDetail, Step } from "../api/queries.ts";
import { count, dollars, duration, number, words } from "../format.ts";
import { cutOff, failure, technique } from "../run-words.ts";
import { inWords } from "../service-words.ts";
import { Status } from "../ui/basics.tsx";
import { Icon } from "../ui/icons.tsx";
import { Json } from "../ui/json.tsx";
import { Markdown } from "../ui/markdown.tsx";

interface Removal {
  technique: string;
  excerpt: string;
}
interface AssistantMessage {
  content?: string | null;
  /** The readable part of the model's reasoning; its provider decides which of the two fields. */
  reasoning_content?: string;
  reasoning?: string;
  note?: string;
  tool_calls?: { id: string; function: { name: string; arguments: string } }[];
}

/** The address of a step on the page of its run. */
export const stepLink = ({ agent_id, id: run_id }: RunDetail, index: number) =>
  ({
    to: "/agents/$id/runs/$run_id",
    params: { id: agent_id, run_id },
    search: { step: index + 1 },
    resetScroll: false,
  }) as const;

interface StepProps {
  run: RunDetail;
  step: Step;
  /** Shown, with all of its parts open. */
  is_selected: boolean;
}

/** One step of a run: its input, output, safety check and price, and what a server or provider said. */
export function StepCard({ run, step, is_selected }: StepProps) {
  const tool = step.type === "tool";
  const repeats = !is_selected && isRetryWithSameError(run, step);
  const card = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (!is_selected) return;
    card.current?.scrollIntoView({ block: "start" });
    card.current?.focus({ preventScroll: true });
  }, [is_selected]);
  return (
    <li
      ref={card}
      tabIndex={-1}
      aria-current={is_selected ? "step" : undefined}
      className={`scroll-mt-16 rounded-xl border border-line bg-panel outline-none ${is_selected ? "ring-2 ring-accent" : ""}`}
    >
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2.5">
        <span className={`rounded-md p-1 ${tool ? "bg-warn-soft text-warn" : "bg-accent-soft text-accent"}`}>
          <Icon name={tool ? "tool" : "model"} />
        </span>
        <h3 className="min-w-0 font-medium break-all">
          <span className="sr-only">Step {step.index + 1}, </span>
          {step.name}
        </h3>
        <Status status={step.status} />
        <span className="ml-auto text-sm text-muted">
          {step.finished_at !== null && duration(step.started_at, step.finished_at)}
          {step.usage !== null && ` · ${dollars(step.usage.cost_tokens)} (${count(step.usage.cost_tokens, "token")})`}
          {step.usage !== null && step.usage.cost_tokens > 0 && (
            <>
              {" · "}
              <Link
                to="/agents/$id/runs/$run_id"
                params={{ id: run.agent_id, run_id: run.id }}
                search={{ step: step.index + 1, why: step.index }}
                resetScroll={false}
                className="link"
                aria-label={`Explain the cost of step ${step.index + 1}`}
              >
                explain
              </Link>
            </>
          )}
        </span>
      </div>
      <div className="space-y-2.5 px-4 pb-3.5 empty:hidden">
        {tool ? (
          <ToolCall step={step} is_open={is_selected} />
        ) : (
          <>
            {is_selected && <p className="text-sm text-muted">{inputInWords(run, step)}</p>}
            <ModelAnswer
              message={step.result as AssistantMessage | null}
              output={is_selected || run.error !== null ? null : run.output}
            />
          </>
        )}
        {cutOff(step) !== null && <p className="text-warn">{cutOff(step)}</p>}
        <Removed safety={step.safety} />
        {is_selected && tool && step.status !== "running" && hasNoFindings(step.safety) && (
          <p className="text-sm text-muted">
            {step.safety == null
              ? "Safety check: this result has no text from outside."
              : "Safety check: nothing was removed."}
          </p>
        )}
        {repeats && <p className="text-bad">The same error again.</p>}
        {step.error !== null && !repeats && (
          <>
            <p className="wrap-anywhere text-bad">
              {words(failure(step.error.code))}: {inWords(step.error.message)}{" "}
              <code className="text-xs text-muted">{step.error.code}</code>
            </p>
            <Outside words={step.error.outside} by={tool ? "server" : "provider"} />
          </>
        )}
        <RawJson step={step} />
      </div>
    </li>
  );
}

/** Whether the step repeats a failed model call, with the same result. */
function isRetryWithSameError({ steps }: RunDetail, { index, type, error }: Step): boolean {
  const before = steps.find((each) => each.index === index - 1);
  if (type !== "model" || before?.type !== "model" || error === null) return false;
  return JSON.stringify(before.error) === JSON.stringify(error);
}

/** What a model call was sent, by the parts of the page that show it. */
function inputInWords({ steps }: RunDetail, { index }: Step): string {
  const before = steps.filter((each) => each.index < index).length;
  if (before === 0) return "Input: the messages above, under “Sent to the model”.";
  return `Input: the messages above, under “Sent to the model”, and the results of the ${before === 1 ? "step" : `${before} steps`} before.`;
}

const hasNoFindings = (safety: Step["safety"]): boolean => {
  const { removed = [], marked = [] } = (safety ?? {}) as SafetyFindings;
  return removed.length + marked.length === 0;
};

/** The step as the API has it. It is drawn when it is opened, because it can be long. */
function RawJson({ step }: { step: Step }) {
  const [is_open, setOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary className="w-fit text-sm text-muted hover:text-ink">Raw JSON</summary>
      {is_open && (
        <div className="mt-2">
          <Json label={`Step ${step.index + 1} as JSON`} value={step} />
        </div>
      )}
    </details>
  );
}

type OutsideWords = NonNullable<NonNullable<Step["error"]>["outside"]>;

/** What a server or a provider itself said of a failure. */
export function Outside({ words: said, by }: { words: OutsideWords | undefined; by: "server" | "provider" }) {
  if (said === undefined || (said.status === null && said.text === null)) return null;
  const status = said.status === null ? "" : ` (status ${said.status})`;
  return (
    <div className="rounded-lg bg-sunken px-3 py-2 text-sm">
      <p className="text-muted">
        {said.text === null
          ? `The ${by} answered without words that can be shown${status}.`
          : `The ${by} said${status}:`}
      </p>
      {said.text !== null && (
        <q dir="auto" className="wrap-anywhere">
          {said.text}
        </q>
      )}
    </div>
  );
}

function ModelAnswer({ message, output }: { message: AssistantMessage | null; output: string | null }) {
  const reasoning = message?.reasoning_content ?? message?.reasoning ?? "";
  return (
    <>
      {message?.note !== undefined && <p className="text-sm text-muted">{message.note}</p>}
      {reasoning !== "" && (
        <details>
          <summary className="w-fit text-sm text-muted hover:text-ink">Reasoning</summary>
          <div className="mt-2 rounded-lg bg-sunken p-3 text-sm text-muted">
            <Markdown text={reasoning} />
          </div>
        </details>
      )}
      {message?.content && message.content === output && <p className="text-muted">The answer is the output above.</p>}
      {message?.content && message.content !== output && <Markdown text={message.content} />}
      {message?.tool_calls?.map((call) => (
        <div key={call.id} className="text-muted">
          called <code className="text-ink">{call.function.name}</code> <Arguments of={parsed(call)} />
        </div>
      ))}
    </>
  );
}

const parsed = ({ function: { arguments: text } }: NonNullable<AssistantMessage["tool_calls"]>[number]): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

/** Short arguments in one line. Long arguments are hidden until opened. */
function Arguments({ of, is_open = false }: { of: unknown; is_open?: boolean }) {
  const { url, ...rest } = (of !== null && typeof of === "object" ? of : { text: of }) as Record<string, unknown>;
  const others = Object.keys(rest).length === 0 ? "" : JSON.stringify(rest, null, 1);
  return (
    <>
      {typeof url === "string" && <code className="text-sm break-all">{url} </code>}
      {others !== "" && others.length <= 80 && <code className="text-sm break-all">{JSON.stringify(rest)}</code>}
      {others.length > 80 && (
        <details open={is_open || undefined}>
          <summary className="w-fit text-sm hover:text-ink">with {Object.keys(rest).join(", ")}</summary>
          <LongText>{others}</LongText>
        </details>
      )}
    </>
  );
}

function LongText({ children }: { children: string }) {
  return (
    <pre
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls long texts
      tabIndex={0}
      className="mt-2 max-h-80 overflow-auto rounded-lg bg-sunken p-3 text-sm break-words whitespace-pre-wrap"
    >
      {children}
    </pre>
  );
}

function ToolCall({ step, is_open }: { step: Step; is_open: boolean }) {
  const result =
    typeof step.result === "string" ? step.result : step.result === null ? "" : JSON.stringify(step.result, null, 2);
  return (
    <>
      <div className="text-muted">
        <Arguments of={step.arguments} is_open={is_open} />
      </div>
      {result !== "" && step.error === null && (
        <details open={is_open || undefined}>
          <summary className="w-fit text-sm text-muted hover:text-ink">
            Result that the model saw ({number(result.length)} characters)
          </summary>
          <LongText>{result}</LongText>
        </details>
      )}
    </>
  );
}

/** The texts that the safety layer removed or marked, with the reasons. `source`: where they stood. */
export function Removed({ safety, source = "The page" }: { safety: Step["safety"]; source?: string }) {
  const { removed = [], marked = [], verdict } = (safety ?? {}) as SafetyFindings;
  const words =
    verdict?.injected === true
      ? `${source} contained instructions for the model. The safety layer removed them:`
      : "The safety layer removed:";
  return (
    <>
      <Passages title={words} passages={removed} is_warning={verdict?.injected === true} />
      <Passages title="The model read these passages with a warning:" passages={marked} is_warning />
    </>
  );
}

interface SafetyFindings {
  removed?: Removal[];
  marked?: Removal[];
  verdict?: { injected: boolean };
}

function Passages({ title, passages, is_warning }: { title: string; passages: Removal[]; is_warning: boolean }) {
  if (passages.length === 0) return null;
  return (
    <div className={`rounded-lg px-3 py-2.5 ${is_warning ? "bg-warn-soft" : "bg-sunken"}`}>
      <h4 className={`flex items-center gap-2 font-medium ${is_warning ? "text-warn" : "text-muted"}`}>
        <Icon name="shield" />
        {title}
      </h4>
      <ul className="mt-1.5 space-y-1.5">
        {passages.slice(0, 10).map(({ technique: name, excerpt }) => (
          <li key={`${name} ${excerpt}`} className="text-sm">
            <span className="font-medium" title={name}>
              {technique(name)}
            </span>
            <q className="ml-2 wrap-anywhere text-muted">{excerpt}</q>
          </li>
        ))}
      </ul>
      {passages.length > 10 && <p className="mt-1.5 text-sm text-muted">and {number(passages.length - 10)} more</p>}
    </div>
  );
}
