import { useState } from "react";
import { count, dayOfYear, dollars, number, short } from "../format.ts";

interface Bar {
  date: string;
  cost_tokens: number;
  tokens: number;
  requests: number;
}

const [WIDTH, HEIGHT] = [720, 160];
/** The chart labels at most this many days. */
const NAMED_DAYS = 5;

/** Rounds up to 2, 4, 6, 8 or 10 times a power of ten, so that half of it is a round number too. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return ([2, 4, 6, 8, 10].find((step) => step * power >= value) ?? 10) * power;
}

/** Billed tokens by day as bars, and as a table for screen readers and exact figures. */
export function UsageChart({ days }: { days: readonly Bar[] }) {
  const [hovered, setHovered] = useState<number | null>(null);
  const total = days.reduce((sum, bar) => sum + bar.cost_tokens, 0);
  if (total === 0)
    return <p className="py-20 text-center text-muted">No tokens were used in these {days.length} days.</p>;
  const top = roundUp(Math.max(...days.map((bar) => bar.cost_tokens)));
  const slot = WIDTH / days.length;
  const height = (tokens: number) => (tokens === 0 ? 0 : Math.max(2, (tokens / top) * HEIGHT));
  return (
    <figure>
      <div className="mt-2 grid grid-cols-[auto_1fr] gap-x-2">
        <div
          className="flex h-40 flex-col justify-between text-right text-xs leading-none text-muted"
          aria-hidden="true"
        >
          {[top, top / 2, 0].map((tokens) => (
            <span key={tokens} className="-my-1.5">
              {short(tokens)}
            </span>
          ))}
        </div>
        <div className="relative">
          <svg
            viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
            preserveAspectRatio="none"
            className="h-40 w-full overflow-visible"
            role="img"
            aria-label={`${number(total)} billed tokens in ${days.length} days. The table below lists each day.`}
            onPointerLeave={() => setHovered(null)}
          >
            {[0, HEIGHT / 2].map((y) => (
              <line key={y} x2={WIDTH} y1={y} y2={y} className="stroke-line" vectorEffect="non-scaling-stroke" />
            ))}
            {days.map((bar, place) => (
              <g key={bar.date} onPointerEnter={() => setHovered(place)}>
                <rect x={place * slot} y="0" width={slot} height={HEIGHT} fill="transparent" />
                <rect
                  x={(place + 0.14) * slot}
                  width={slot * 0.72}
                  y={HEIGHT - height(bar.cost_tokens)}
                  height={height(bar.cost_tokens)}
                  className={hovered === null || hovered === place ? "fill-accent" : "fill-accent/45"}
                />
              </g>
            ))}
            <line x2={WIDTH} y1={HEIGHT} y2={HEIGHT} className="stroke-edge" vectorEffect="non-scaling-stroke" />
          </svg>
          {hovered !== null && <Tip bar={days[hovered]} at={(hovered + 0.5) / days.length} />}
        </div>
        <DayNames days={days} />
      </div>
      <details className="mt-2 text-sm">
        <summary className="w-fit text-muted hover:text-ink">As a table</summary>
        <table className="mt-2 w-full max-w-xl">
          <thead>
            <tr className="text-left text-xs text-muted">
              <th scope="col" className="font-medium">
                Day (UTC)
              </th>
              <th scope="col" className="text-right font-medium">
                Billed tokens
              </th>
              <th scope="col" className="text-right font-medium">
                Requests
              </th>
            </tr>
          </thead>
          <tbody>
            {days
              .filter((bar) => bar.requests > 0)
              .map((bar) => (
                <tr key={bar.date}>
                  <td>{bar.date}</td>
                  <td className="text-right">{number(bar.cost_tokens)}</td>
                  <td className="text-right">{number(bar.requests)}</td>
                </tr>
              ))}
          </tbody>
        </table>
        <p className="mt-1 text-muted">Days without requests are not listed.</p>
      </details>
    </figure>
  );
}

/** Figures of the bar under the pointer. They are beside the bar, so they stay inside the chart. */
function Tip({ bar, at }: { bar: Bar | undefined; at: number }) {
  if (bar === undefined) return null;
  return (
    <div
      className="pointer-events-none absolute top-0 z-10 rounded-lg border border-line bg-panel px-3 py-2 text-sm whitespace-nowrap shadow-lg"
      style={at < 0.5 ? { left: `calc(${at * 100}% + 1rem)` } : { right: `calc(${(1 - at) * 100}% + 1rem)` }}
    >
      <div className="text-muted">{dayOfYear(bar.date)}</div>
      <div className="font-semibold">{count(bar.cost_tokens, "token")}</div>
      <div className="text-muted">
        {dollars(bar.cost_tokens)}, {count(bar.requests, "request")}
      </div>
    </div>
  );
}

/** Labels of some days, counted back from the last. */
function DayNames({ days }: { days: readonly Bar[] }) {
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
