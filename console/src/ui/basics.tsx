import { Link, type LinkProps } from "@tanstack/react-router";
import { type ButtonHTMLAttributes, Fragment, type ReactNode } from "react";
import { RUN_STATUSES, type RunStatus, WITH_ERRORS } from "../run-words.ts";
import { Icon, type IconName } from "./icons.tsx";

/** Basic parts of every page. */

const KINDS = {
  primary: "bg-accent text-accent-ink border-transparent hover:brightness-110",
  plain: "bg-panel text-ink border-line hover:bg-sunken",
  quiet: "bg-transparent text-muted border-transparent hover:bg-sunken hover:text-ink",
  danger: "bg-panel text-bad border-bad/40 hover:bg-bad-soft",
} as const;
export type ButtonKind = keyof typeof KINDS;

/** Classes of a button, for links that look like one. */
export const buttonClass = (kind: ButtonKind = "plain", className = "") =>
  `inline-flex items-center justify-center gap-1.5 rounded-md border px-3 py-1.5 min-h-[calc(2rem+2px)] font-medium leading-5 whitespace-nowrap select-none transition-colors disabled:opacity-55 ${KINDS[kind]} ${className}`;

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: ButtonKind;
  icon?: IconName;
  /** The action is in progress: the button is disabled and shows a spinner. */
  busy?: boolean;
}
export function Button({
  kind = "plain",
  icon,
  busy = false,
  className = "",
  children,
  disabled,
  ...rest
}: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled === true || busy}
      aria-busy={busy}
      className={buttonClass(kind, className)}
    >
      {busy ? <Spinner /> : icon !== undefined && <Icon name={icon} />}
      {children}
    </button>
  );
}

export function Spinner({ className = "size-4" }: { className?: string }) {
  return (
    <svg className={`animate-spin ${className}`} viewBox="0 0 16 16" fill="none" aria-hidden="true">
      <circle cx="8" cy="8" r="6" stroke="currentColor" strokeOpacity=".25" strokeWidth="2" />
      <path d="M14 8a6 6 0 0 0-6-6" stroke="currentColor" strokeWidth="2" strokeLinecap="round" />
    </svg>
  );
}

/** The page's heading and the document's title. */
export function PageHeader({ title, note, children }: { title: string; note?: ReactNode; children?: ReactNode }) {
  return (
    <header className="mb-5 flex flex-wrap items-start justify-between gap-x-6 gap-y-3 md:flex-nowrap">
      <title>{`${title} · Purser`}</title>
      <div className="min-w-0">
        <h1 dir="auto" className="text-xl font-semibold tracking-tight wrap-anywhere">
          {title}
        </h1>
        {note !== undefined && (
          <div dir="auto" className="mt-0.5 wrap-anywhere text-muted">
            {note}
          </div>
        )}
      </div>
      {children !== undefined && <div className="flex flex-wrap items-center gap-2 md:shrink-0">{children}</div>}
    </header>
  );
}

interface CardProps {
  title?: string;
  note?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  /** No padding around the content, for tables and lists. */
  flush?: boolean;
  className?: string;
}
export function Card({ title, note, actions, children, flush = false, className = "" }: CardProps) {
  return (
    <section className={`min-w-0 rounded-xl border border-line bg-panel ${className}`}>
      {title !== undefined && (
        <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2 px-4 pt-3.5 pb-2.5">
          <div className="min-w-0">
            <h2 className="font-semibold wrap-anywhere">{title}</h2>
            {note !== undefined && <p className="text-sm text-muted">{note}</p>}
          </div>
          {actions}
        </div>
      )}
      <div className={flush ? "" : `px-4 pb-4 ${title === undefined ? "pt-4" : "pt-0.5"}`}>{children}</div>
    </section>
  );
}

/** Replaces an empty list: says what the list is for and what to do next. */
export function Empty({
  icon,
  title,
  children,
  action,
}: {
  icon: IconName;
  title: string;
  children: ReactNode;
  action?: ReactNode;
}) {
  return (
    <div className="flex flex-col items-center px-6 py-10 text-center">
      <div className="mb-3 rounded-full bg-accent-soft p-2.5 text-accent">
        <Icon name={icon} className="size-5" />
      </div>
      <p className="font-semibold">{title}</p>
      <p className="mt-1 max-w-md text-pretty text-muted">{children}</p>
      {action !== undefined && <div className="mt-4 flex flex-wrap justify-center gap-2">{action}</div>}
    </div>
  );
}

const TONES = {
  neutral: "bg-sunken text-muted",
  accent: "bg-accent-soft text-accent",
  good: "bg-good-soft text-good",
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
} as const;
export type Tone = keyof typeof TONES;

export function Badge({ tone = "neutral", children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span
      className={`inline-flex items-center gap-1 rounded-full px-2 py-px text-xs font-medium whitespace-nowrap ${TONES[tone]}`}
    >
      {typeof children === "string" ? <Capital>{children}</Capital> : children}
    </span>
  );
}

/** Shows a word with a capital first letter, as a sentence begins. */
function Capital({ children }: { children: string }) {
  return <span className="inline-block first-letter:uppercase">{children}</span>;
}

interface StatusProps {
  status: RunStatus;
  has_errors?: boolean;
}
/** The status of a run or a step: a step's statuses are among a run's. */
export function Status({ status, has_errors = false }: StatusProps) {
  if (status === "succeeded" && has_errors) return <Badge tone="warn">{WITH_ERRORS}</Badge>;
  const { phase, name, tone } = RUN_STATUSES[status];
  return (
    <Badge tone={tone}>
      {phase === "working" && <Spinner className="size-3" />}
      <Capital>{name}</Capital>
    </Badge>
  );
}

/** A permanent message within the page. */
export function Callout({
  tone,
  icon,
  children,
}: {
  tone: Exclude<Tone, "neutral">;
  icon: IconName;
  children: ReactNode;
}) {
  return (
    <div className={`flex items-start gap-2.5 rounded-lg px-3.5 py-2.5 ${TONES[tone]}`}>
      <Icon name={icon} className="mt-0.5 size-4" />
      <div className="min-w-0 flex-1 wrap-anywhere">{children}</div>
    </div>
  );
}

export function Skeleton({ lines = 3 }: { lines?: number }) {
  return (
    <div className="animate-pulse space-y-2.5 p-4" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines are equal and keep their order
        <div key={line} className="h-4 rounded bg-sunken" />
      ))}
    </div>
  );
}

/** Terms and values in rows. */
export function Facts({ facts }: { facts: [string, ReactNode][] }) {
  return (
    <dl className="grid grid-cols-[auto_1fr] gap-x-5 gap-y-2">
      {facts.map(([term, fact]) => (
        <div key={term} className="contents">
          <dt className="text-muted">{term}</dt>
          <dd className="min-w-0 wrap-anywhere">{fact}</dd>
        </div>
      ))}
    </dl>
  );
}

interface Tab {
  name: string;
  chosen: boolean;
  to: LinkProps["to"];
  params?: Record<string, string>;
  search: Record<string, unknown>;
}

/** Parts of a page. Each is a link with an address, so it can open in a new tab. */
export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  return (
    <nav aria-label={label} className="mb-4 flex flex-wrap gap-x-1 border-b border-line">
      {tabs.map(({ name, chosen, ...link }) => (
        <Link
          key={name}
          {...(link as LinkProps)}
          replace
          resetScroll={false}
          aria-current={chosen ? "true" : undefined}
          // Otherwise a link without search values counts as the current page on each tab.
          activeOptions={{ exact: true }}
          activeProps={{}}
          className={`-mb-px border-b-2 px-3 py-2 font-medium whitespace-nowrap max-md:px-2 ${chosen ? "border-accent text-ink" : "border-transparent text-muted hover:text-ink"}`}
        >
          {name}
        </Link>
      ))}
    </nav>
  );
}

interface Segment {
  name: string;
  chosen: boolean;
  /** What choosing it changes in the page's search; undefined removes a value. */
  search: Record<string, string | number | undefined>;
}

/** A row of choices. Each is a link, so it can open in a new tab. */
export function Segments({ label, segments }: { label: string; segments: readonly Segment[] }) {
  return (
    <nav aria-label={label} className="flex w-fit flex-wrap rounded-lg bg-sunken p-0.5">
      {segments.map(({ name, chosen, search }) => (
        <Link
          key={name}
          to="."
          search={(old: object) => ({ ...old, ...search }) as never}
          replace
          resetScroll={false}
          className={segmentClass(chosen)}
          activeProps={{ "aria-current": undefined }}
          aria-current={chosen ? "true" : undefined}
        >
          {name}
        </Link>
      ))}
    </nav>
  );
}

/** Classes of one choice in a row of choices. */
export const segmentClass = (chosen: boolean) =>
  `rounded-md px-2.5 py-1 text-sm font-medium whitespace-nowrap ${chosen ? "bg-panel text-ink shadow-xs ring-1 ring-line" : "text-muted hover:text-ink"}`;

/** A name such as a model's id, which breaks after its separators before it breaks in a word. */
export function Name({ text }: { text: string }) {
  return text.split(/(?<=[/:@-])/).map((part, place) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: the parts have an order, and no other identity
    <Fragment key={place}>
      {place > 0 && <wbr />}
      {part}
    </Fragment>
  ));
}
