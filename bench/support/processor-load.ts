import { checked, closedLoop, type Target } from "./load.ts";
import type { Table } from "./outcome.ts";
import { processorMs } from "./processes.ts";
import type { BenchService } from "./service.ts";
import { medianOf } from "./statistics.ts";

/** What a completion costs: benchmarks of limits and of traces compare it in pairs of rounds. */

const CALLERS = 8;

export interface ProcessorMeasure {
  /** Milliseconds of the service's processor per completion. */
  processor_ms: number;
  per_second: number;
}

/** Completions of the instant model with this key. */
export function completionTarget({ port }: BenchService, key: string): Target {
  const body = { model: "bench/instant", messages: [{ role: "user", content: "What does a purser do on a ship?" }] };
  return { port, path: "/api/v1/chat/completions", headers: { authorization: `Bearer ${key}` }, body };
}

/** Throws if a completion fails. `name` is the contender's. */
export async function processorLoad(
  name: string,
  service: BenchService,
  { target, seconds }: { target: Target; seconds: number },
): Promise<ProcessorMeasure> {
  const before_ms = processorMs(service.pid);
  const { answers, per_second } = await checked(name, closedLoop(target, { callers: CALLERS, seconds }));
  return { per_second, processor_ms: (processorMs(service.pid) - before_ms) / answers };
}

/** The medians of each contender's rounds. */
export function processorTable(found: ReadonlyMap<string, readonly ProcessorMeasure[]>): Table {
  return {
    caption: `Completions by ${CALLERS} callers on PostgreSQL`,
    columns: ["processor, ms", "requests/s"],
    rows: [...found].map(([name, measures]) => ({
      name,
      values: [medianOf(measures, (each) => each.processor_ms), medianOf(measures, (each) => each.per_second)],
    })),
  };
}
