import { useState } from "react";
import { day, dollars, number, short } from "../format.ts";

interface Bar {
  date: string;
  cost_tokens: number;
  tokens: number;
  requests: number;
}

const [WIDTH, HEIGHT, TOP] = [720, 170, 10];

/** The least round number (1, 2 or 5 times a power of ten) that is not below `value`. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}

/** Billed tokens by day as bars, and, for who reads with ears or wants the figures, as a table. */
export function UsageChart({ days }: { days: readonly Bar[] }) {
  const [pointed, setPointed] = useState<Bar | null>(null);
  const top = roundUp(Math.max(...days.map((bar) => bar.cost_tokens), 1));
  const slot = WIDTH / Math.max(1, days.length);
  const height = (tokens: number) => (tokens / top) * (HEIGHT - TOP);
  const total = days.reduce((sum, bar) => sum + bar.cost_tokens, 0);
  const [first, last] = [days.at(0), days.at(-1)];
  return (
    <figure>
      <figcaption className="mb-1 flex h-5 justify-between text-sm text-muted">
        <span>
          {pointed === null
            ? `up to ${short(top)} tokens a day`
            : `${day(pointed.date)}: ${number(pointed.cost_tokens)} tokens (${dollars(pointed.cost_tokens)}), ${number(pointed.requests)} requests`}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        className="h-44 w-full"
        role="img"
        aria-label={`${number(total)} billed tokens in ${days.length} days. The table below has each day.`}
        onPointerLeave={() => setPointed(null)}
      >
        {[0.5, 1].map((part) => (
          <line
            key={part}
            x1="0"
            x2={WIDTH}
            y1={HEIGHT - height(top * part)}
            y2={HEIGHT - height(top * part)}
            className="stroke-line"
            strokeDasharray="3 4"
            vectorEffect="non-scaling-stroke"
          />
        ))}
        <line x1="0" x2={WIDTH} y1={HEIGHT} y2={HEIGHT} className="stroke-edge" vectorEffect="non-scaling-stroke" />
        {days.map((bar, place) => (
          <g key={bar.date} onPointerEnter={() => setPointed(bar)}>
            <rect x={place * slot} y="0" width={slot} height={HEIGHT} fill="transparent" />
            <rect
              x={place * slot + slot * 0.14}
              width={slot * 0.72}
              y={HEIGHT - Math.max(bar.cost_tokens > 0 ? 2 : 0, height(bar.cost_tokens))}
              height={Math.max(bar.cost_tokens > 0 ? 2 : 0, height(bar.cost_tokens))}
              className={pointed === null || pointed === bar ? "fill-accent" : "fill-accent/45"}
            />
          </g>
        ))}
      </svg>
      <div className="mt-1 flex justify-between text-xs text-muted" aria-hidden="true">
        <span>{first === undefined ? "" : day(first.date)}</span>
        <span>{last === undefined ? "" : day(last.date)}</span>
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
        <p className="mt-1 text-muted">Days without requests are left out.</p>
      </details>
    </figure>
  );
}

/** How much of a whole is there: what remains of a bucket, what is used of a cap. */
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
    // biome-ignore lint/a11y/useSemanticElements: browsers let no style near <meter>
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

/** A choice between views, each with its address. */
export const segmentClass = (chosen: boolean) =>
  `rounded-md px-2.5 py-1 text-sm font-medium whitespace-nowrap ${chosen ? "bg-panel text-ink shadow-xs ring-1 ring-line" : "text-muted hover:text-ink"}`;
