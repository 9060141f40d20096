import { join } from "node:path";
import { sanitize } from "../src/safety/sanitize.ts";
import { COSTLY } from "../test/support/costly-contents.ts";
import { measureExtractors } from "./peers/extractors.ts";
import { labelledRows, type Row } from "./support/labelled-rows.ts";
import type { Effort, Outcome, Table } from "./support/outcome.ts";
import { percentile } from "./support/statistics.ts";

const READABLE = import.meta.resolve("../src/safety/reading/readable.ts");
const PAGES_100_KB = 150;
const PAGES_1_MB = 10;
const COSTLY_BYTES = 1_000_000;
const SLOWEST_TOLD = 5;
/** As for a tool's result (agents/tools/safe-answer.ts). */
const MAX_CHARS = 100_000;

/**
 * The safety layer: how long pages take, and, with a folder of labelled pages, how much of honest pages is kept, beside
 * extractors of npm.
 */
export async function safety(effort: Effort): Promise<Outcome> {
  const rows = labelledRows(effort.data);
  const extraction = effort.data === null ? [] : measureExtractors(READABLE, join(effort.data, "dev.jsonl"), effort);
  const pages = rows.filter(({ kind, label }) => kind === "html" && label === "benign");
  const speed = [
    { name: "100 KB", ...timed(pages, { bytes: 100_000, count: PAGES_100_KB * effort.scale }) },
    { name: "1 MB", ...timed(pages, { bytes: 1_000_000, count: PAGES_1_MB * effort.scale }) },
  ];
  const costly = timedCostly(Math.ceil(COSTLY_BYTES * effort.scale));
  const best = extraction.slice(1).toSorted((a, b) => b.fidelity - a.fidelity)[0];
  const fastest = extraction.slice(1).toSorted((a, b) => a.ms_per_100_kb - b.ms_per_100_kb)[0];
  const [own] = extraction;
  return {
    name: "safety",
    title: "Safety layer",
    tables: [
      {
        caption: "A page of that size, whole, ms of one thread",
        columns: ["p50", "p99"],
        rows: speed.map(({ name, p50, p99 }) => ({ name, values: [p50, p99] })),
      },
      {
        caption: `The ${SLOWEST_TOLD} slowest of ${costly.length} contents that are made to cost time, ms per MB of one thread`,
        columns: ["ms per MB"],
        rows: costly.slice(0, SLOWEST_TOLD).map(({ name, ms_per_mb }) => ({ name, values: [ms_per_mb] })),
      },
      ...(extraction.length === 0 ? [] : [extractionTable(extraction)]),
    ],
    ratios: [
      { of: "a page of 100 KB, p50", to: "20 ms", value: (speed[0]?.p50 ?? Number.NaN) / 20, goal: "≤ 1" },
      { of: "a page of 1 MB, p50", to: "200 ms", value: (speed[1]?.p50 ?? Number.NaN) / 200, goal: "≤ 1" },
      {
        of: "the slowest content, per MB",
        to: "500 ms",
        value: (costly[0]?.ms_per_mb ?? Number.NaN) / 500,
        goal: "≤ 1",
      },
      ...(own === undefined || best === undefined || fastest === undefined
        ? []
        : [
            { of: "sentences kept", to: best.name, value: own.fidelity / best.fidelity, goal: "≥ 1" },
            { of: "time", to: fastest.name, value: own.ms_per_100_kb / fastest.ms_per_100_kb, goal: "≤ 1" },
          ]),
    ],
  };
}

function extractionTable(measures: ReturnType<typeof measureExtractors>): Table {
  return {
    caption: "Text kept of honest pages, and time of the extraction alone",
    columns: ["sentences kept, %", "pages kept whole, %", "ms per 100 KB"],
    rows: measures.map(({ name, fidelity, whole, ms_per_100_kb }) => ({
      name,
      values: [100 * fidelity, 100 * whole, ms_per_100_kb],
    })),
  };
}

/** Pages of about `bytes`, made by joining honest ones, through the whole layer. */
function timed(
  pages: readonly Row[],
  { bytes, count }: { bytes: number; count: number },
): { p50: number; p99: number } {
  const bodies = pages.map(({ content }) => content.replaceAll(/^[\s\S]*?<body[^>]*>|<\/body>[\s\S]*$/gi, ""));
  const taken: number[] = [];
  let next = 0;
  for (let turn = 0; turn < Math.max(3, count) + WARM_UP; turn++) {
    const parts: string[] = [];
    for (let length = 0; length < bytes; length += parts.at(-1)?.length ?? 1) {
      parts.push(`<section>${(bodies[next++ % bodies.length] ?? "x").slice(0, bytes - length)}</section>`);
    }
    const from_ms = cpuMs();
    sanitize({ content: parts.join(""), kind: "html", level: "balanced", mark: "5f".repeat(12) });
    if (turn >= WARM_UP) taken.push(cpuMs() - from_ms);
  }
  const sorted = taken.toSorted((a, b) => a - b);
  return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) };
}
const WARM_UP = 5;

/** The contents that are made to cost time, the slowest first; the better of two turns after a short one. */
function timedCostly(bytes: number): { name: string; ms_per_mb: number }[] {
  return COSTLY.map(({ name, kind, contentOf }) => {
    const take = (content: string): number => {
      const from_ms = cpuMs();
      sanitize({ content, kind, level: "balanced", mark: "5f".repeat(12), max_chars: MAX_CHARS });
      return ((cpuMs() - from_ms) * 1_000_000) / Buffer.byteLength(content);
    };
    const content = contentOf(bytes);
    take(content.slice(0, bytes / 50));
    return { name: `${kind}: ${name}`, ms_per_mb: Math.min(take(content), take(content)) };
  }).sort((a, b) => b.ms_per_mb - a.ms_per_mb);
}

/** Of this thread alone: a machine that has other work does not count. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
