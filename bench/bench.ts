import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createSystemClock } from "../src/platform/lib/clock.ts";
import { agentRuns } from "./agent-runs.ts";
import { charges } from "./charges.ts";
import { completions } from "./completions.ts";
import { limits } from "./limits.ts";
import { obedience } from "./obedience.ts";
import { outbound } from "./outbound.ts";
import { safety } from "./safety.ts";
import { schedules } from "./schedules.ts";
import { startUp } from "./start-up.ts";
import type { Effort, Outcome } from "./support/outcome.ts";
import { printOutcome } from "./support/print.ts";
import { writeReport } from "./support/report.ts";
import { tracing } from "./tracing.ts";
import { usageSummary } from "./usage-summary.ts";
import { vault } from "./vault.ts";
import { waitingRuns } from "./waiting-runs.ts";

// `npm run bench -- [name…] [--quick] [--rounds N] [--peers] [--write] [--data DIR]`: see docs/benchmarks.md.

const BENCHMARKS: Record<string, (effort: Effort) => Promise<Outcome>> = {
  completions,
  charges,
  limits,
  schedules,
  "agent-runs": agentRuns,
  "waiting-runs": waitingRuns,
  "start-up": startUp,
  "usage-summary": usageSummary,
  vault,
  outbound,
  safety,
  obedience,
  tracing,
};

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    peers: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    data: { type: "string" },
  },
});
if (options.write && positionals.length > 0) throw new Error("--write takes a run of everything");
const names = positionals.length > 0 ? positionals : Object.keys(BENCHMARKS);
const effort: Effort = {
  rounds: Number(options.rounds ?? (options.quick ? 1 : 3)),
  scale: options.quick ? 0.1 : 1,
  peers: options.peers,
  data: options.data ?? null,
};
const outcomes: Outcome[] = [];
for (const name of names) {
  const benchmark = BENCHMARKS[name];
  if (benchmark === undefined) throw new Error(`there is no benchmark ${name}: ${Object.keys(BENCHMARKS).join(", ")}`);
  const outcome = await benchmark(effort);
  printOutcome(outcome);
  outcomes.push(outcome);
}
if (options.write) {
  writeReport(fileURLToPath(import.meta.resolve("../docs")), outcomes, {
    date: createSystemClock().now().slice(0, 10),
    effort,
  });
}
