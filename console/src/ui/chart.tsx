import { Link } from "@tanstack/react-router";
import { type KeyboardEvent, useState } from "react";
import { TOKENS_PER_USD } from "../../../src/kernel/constants.ts";
import { count, dayOfYear, dollars, number } from "../format.ts";

export interface Figures {
  cost_tokens: number;
  requests: number;
}

/** A part of each day's bar. */
export interface Series {
  id: string;
  name: string;
  /** Class of its colour: `fill-…` and `bg-…`. */
  colour: SeriesColour;
  /** By date. */
  daily: ReadonlyMap<string, Figures>;
}

/** Colours of a bar's parts, from the bottom. The last is for the sum of all others. */
export const SERIES_COLOURS = [
  { fill: "fill-series-1", bg: "bg-series-1" },
  { fill: "fill-series-2", bg: "bg-series-2" },
  { fill: "fill-series-3", bg: "bg-series-3" },
  { fill: "fill-series-4", bg: "bg-series-4" },
  { fill: "fill-series-5", bg: "bg-series-5" },
  { fill: "fill-series-6", bg: "bg-series-6" },
] as const;
export const OTHERS_COLOUR = { fill: "fill-edge", bg: "bg-edge" } as const;
type SeriesColour = (typeof SERIES_COLOURS)[number] | typeof OTHERS_COLOUR;

export const Swatch = ({ colour }: { colour: SeriesColour }) => (
  <span aria-hidden="true" className={`inline-block size-2.5 shrink-0 rounded-xs ${colour.bg}`} />
);

const [WIDTH, HEIGHT] = [720, 160];
/** The chart labels at most this many days. */
const NAMED_DAYS = 5;

/** Rounds up to 2, 4, 6, 8 or 10 times a power of ten, so that half of it is a round number too. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([2, 4, 6, 8, 10].find((step) => step * power >= value) ?? 10) * power;
}

const sumOf = (series: readonly Series[], date: string): Figures =>
  series.reduce(
    (sum, { daily }) => {
      const { cost_tokens = 0, requests = 0 } = daily.get(date) ?? {};
      return { cost_tokens: sum.cost_tokens + cost_tokens, requests: sum.requests + requests };
    },
    { cost_tokens: 0, requests: 0 },
  );

interface StackedChartProps {
  /** All days, oldest first. */
  dates: readonly string[];
  series: readonly Series[];
  /** The day whose figures are shown elsewhere. */
  chosen: string | undefined;
  /** The address of this page with the day chosen. */
  searchOf: (date: string) => (old: object) => never;
}

/**
 * The cost of each day as a bar of parts, each a link, and as a table for screen readers and exact figures. The bars are one
 * stop of the Tab key; the arrow keys go from day to day.
 */
export function StackedChart({ dates, series, chosen, searchOf }: StackedChartProps) {
  const [hovered, setHovered] = useState<number | null>(null);
  const [stop, setStop] = useState<number | null>(null);
  const days = dates.map((date) => ({ date, ...sumOf(series, date) }));
  const total = days.reduce((sum, { cost_tokens }) => sum + cost_tokens, 0);
  if (total === 0) return <p className="py-20 text-center text-muted">These requests cost nothing.</p>;
  const top = roundUp(Math.max(...days.map(({ cost_tokens }) => cost_tokens)) / TOKENS_PER_USD) * TOKENS_PER_USD;
  const slot = WIDTH / days.length;
  const shown = chosen === undefined ? -1 : dates.indexOf(chosen);
  const emphasis = hovered ?? (shown === -1 ? null : shown);
  const at_stop = Math.min(stop ?? (shown === -1 ? days.length - 1 : shown), days.length - 1);
  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    const next = { ArrowLeft: at_stop - 1, ArrowRight: at_stop + 1, Home: 0, End: days.length - 1 }[event.key];
    if (next === undefined || days[next] === undefined) return;
    event.preventDefault();
    setStop(next);
    event.currentTarget.querySelectorAll("a")[next]?.focus();
  };
  return (
    <figure>
      <div className="mt-2 grid grid-cols-[auto_1fr] gap-x-2">
        <div
          className="flex h-40 flex-col justify-between text-right text-xs leading-none text-muted"
          aria-hidden="true"
        >
          {[top, top / 2, 0].map((tokens) => (
            <span key={tokens} className="-my-1.5">
              {dollars(tokens)}
            </span>
          ))}
        </div>
        <div className="relative">
          <svg
            viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
            preserveAspectRatio="none"
            className="h-40 w-full overflow-visible"
            aria-hidden="true"
          >
            {[0, HEIGHT / 2].map((y) => (
              <line key={y} x2={WIDTH} y1={y} y2={y} className="stroke-line" vectorEffect="non-scaling-stroke" />
            ))}
            {days.map(({ date }, place) => (
              <g key={date} opacity={emphasis === null || emphasis === place ? 1 : 0.45}>
                {partsOf(series, date, top).map(({ id, colour, y, height }) => (
                  <rect
                    key={id}
                    x={(place + 0.14) * slot}
                    width={slot * 0.72}
                    y={y}
                    height={height}
                    className={`${colour.fill} stroke-panel`}
                    strokeWidth={height > 4 ? 1 : 0}
                    vectorEffect="non-scaling-stroke"
                  />
                ))}
              </g>
            ))}
            <line x2={WIDTH} y1={HEIGHT} y2={HEIGHT} className="stroke-edge" vectorEffect="non-scaling-stroke" />
          </svg>
          <nav
            aria-label="Days (UTC)"
            className="absolute inset-0 flex"
            onKeyDown={onKeyDown}
            onPointerLeave={() => setHovered(null)}
            onBlur={() => setHovered(null)}
          >
            {days.map(({ date, cost_tokens, requests }, place) => (
              <Link
                key={date}
                to="."
                search={searchOf(date)}
                replace
                resetScroll={false}
                preload={false}
                activeProps={{ "aria-current": undefined }}
                aria-current={date === chosen ? "true" : undefined}
                aria-label={`${dayOfYear(date)}: ${dollars(cost_tokens)}, ${count(requests, "request")}`}
                tabIndex={place === at_stop ? 0 : -1}
                className="min-w-0 flex-1 rounded-sm"
                onPointerEnter={() => setHovered(place)}
                onFocus={() => {
                  setStop(place);
                  setHovered(place);
                }}
              />
            ))}
          </nav>
          {hovered !== null && <Tip day={days[hovered]} series={series} at={(hovered + 0.5) / days.length} />}
        </div>
        <DayNames days={days} />
      </div>
      <DayTable days={days} />
    </figure>
  );
}

/** The parts of a day's bar from the bottom. */
function partsOf(series: readonly Series[], date: string, top: number) {
  let below = 0;
  return series.flatMap(({ id, colour, daily }) => {
    const cost_tokens = daily.get(date)?.cost_tokens ?? 0;
    if (cost_tokens === 0) return [];
    const height = Math.max(1, (cost_tokens / top) * HEIGHT);
    below += height;
    return [{ id, colour, height, y: HEIGHT - below }];
  });
}

interface Day extends Figures {
  date: string;
}

function DayTable({ days }: { days: readonly Day[] }) {
  return (
    <details className="mt-2 text-sm">
      <summary className="w-fit text-muted hover:text-ink">Days as a table</summary>
      <table className="mt-2 w-full max-w-xl">
        <thead>
          <tr className="text-left text-xs text-muted">
            {["Day (UTC)", "Cost", "Billed tokens", "Requests"].map((title, place) => (
              <th key={title} scope="col" className={`font-medium ${place === 0 ? "" : "text-right"}`}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {days
            .filter(({ requests }) => requests > 0)
            .map(({ date, cost_tokens, requests }) => (
              <tr key={date}>
                <td>{date}</td>
                <td className="text-right">{dollars(cost_tokens)}</td>
                <td className="text-right">{number(cost_tokens)}</td>
                <td className="text-right">{number(requests)}</td>
              </tr>
            ))}
        </tbody>
      </table>
      <p className="mt-1 text-muted">Days without requests are not listed.</p>
    </details>
  );
}

/** Figures of the bar under the pointer. They are beside the bar, so they stay inside the chart. */
function Tip({ day, series, at }: { day: Day | undefined; series: readonly Series[]; at: number }) {
  if (day === undefined) return null;
  return (
    <div
      className="pointer-events-none absolute top-0 z-10 max-w-72 rounded-lg border border-line bg-panel px-3 py-2 text-sm shadow-lg"
      style={at < 0.5 ? { left: `calc(${at * 100}% + 1rem)` } : { right: `calc(${(1 - at) * 100}% + 1rem)` }}
    >
      <div className="text-muted">{dayOfYear(day.date)}</div>
      <div className="font-semibold">{dollars(day.cost_tokens)}</div>
      <div className="text-muted">{count(day.requests, "request")}</div>
      {series.map(({ id, name, colour, daily }) => {
        const cost_tokens = daily.get(day.date)?.cost_tokens ?? 0;
        return (
          cost_tokens > 0 && (
            <div key={id} className="flex items-center gap-1.5">
              <Swatch colour={colour} />
              <span className="min-w-0 flex-1 truncate">{name}</span>
              <span>{dollars(cost_tokens)}</span>
            </div>
          )
        );
      })}
    </div>
  );
}

/** Labels of some days, counted back from the last. */
function DayNames({ days }: { days: readonly Day[] }) {
  const step = Math.ceil(days.length / NAMED_DAYS);
  return (
    <div className="relative col-start-2 mt-1.5 h-4 text-xs text-muted" aria-hidden="true">
      {days.map(({ date }, place) => {
        if ((days.length - 1 - place) % step !== 0) return null;
        const middle = ((place + 0.5) / days.length) * 100;
        return (
          <span
            key={date}
            className="absolute -translate-x-1/2 whitespace-nowrap"
            style={{ left: `min(${middle}%, 100% - 1.4rem)` }}
          >
            {dayOfYear(date)}
          </span>
        );
      })}
    </div>
  );
}

/** A part of a whole: the rest of a bucket, the used part of a cap. */
export function Meter({
  label,
  value,
  of,
  tone = "bg-accent",
}: {
  label: string;
  value: number;
  of: number;
  tone?: string;
}) {
  const percent = of === 0 ? 0 : Math.min(100, (value / of) * 100);
  return (
    // biome-ignore lint/a11y/useSemanticElements: browsers do not style <meter>
    <div
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={of}
      aria-valuenow={value}
      aria-valuetext={`${number(value)} of ${number(of)}`}
      className="h-1.5 w-full overflow-hidden rounded-full bg-sunken"
    >
      <div className={`h-full rounded-full ${tone}`} style={{ width: `${percent}%` }} />
    </div>
  );
}
