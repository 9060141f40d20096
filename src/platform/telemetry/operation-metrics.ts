import { setTimeout as delay } from "node:timers/promises";
import { Counter, Gauge, Histogram, type Registry } from "@prometheus-io/client";
import { monotonicMs } from "../lib/clock.ts";
import { RELEASE } from "../lib/release.ts";

/** `away`: it does not answer. `disk_full`: it rejects writes because its disk is full. */
export type DatabaseState = "up" | "away" | "disk_full";

/** Connections of the pool. `waiting`: callers without one. */
export interface DatabaseFigures {
  busy: number;
  idle: number;
  waiting: number;
}

/** Timeout for a figure that is read from the database at a scrape. */
const LOOK_MS = 1_000;
const UPSTREAM_SECONDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600];
const STATEMENT_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30];

/** A model of the catalogue, with its provider. */
export interface UpstreamModel {
  provider: string;
  model: string;
}

/**
 * Label values of counters of errors. A counter without a value does not exist, and `increase()` does not see its first
 * failure.
 */
export interface KnownLabels {
  http_errors: readonly string[];
  run_errors: readonly string[];
  tools: readonly string[];
  tool_errors: readonly string[];
  vault_errors: readonly string[];
}

export const NO_LABELS: KnownLabels = { http_errors: [], run_errors: [], tools: [], tool_errors: [], vault_errors: [] };

/** Failures of a provider, by which another model may answer. */
const UPSTREAM_FAILURES = ["upstream_error", "upstream_timeout"];

/** Metrics of providers, the database and background work, for the dashboard and the alerts in deploy/. */
export interface OperationMetrics {
  /** An answer with an error, by its code. */
  httpError(code: string): void;
  /** One attempt at a provider. `code`: null if it succeeded. */
  upstream(model: UpstreamModel, attempt: { ms: number; code: string | null; streamed: boolean }): void;
  /** A provider's usage report that is not believed. */
  usageDisbelieved(model: UpstreamModel): void;
  /** Output tokens of a settled call. */
  modelOutput(model: string, tokens: number): void;
  /** What the provider charges for a settled call. Null: unknown. */
  upstreamCost(model: string, micro_usd: number | null): void;
  /** A failed call of a tool, by Purser's name for the tool. */
  toolFailed(tool: string, code: string): void;
  vaultFailed(cause: string): void;
  /** A page of the payment provider's list of events. `missed`: events that its webhook did not deliver. */
  paymentEventsRead(read: { failed: boolean; missed: number }): void;
  statement(ms: number): void;
  /** A sweep of background work has succeeded. */
  swept(source: string): void;
  /** How far this node's clock is ahead of the database's. */
  clockSkew(seconds: number): void;
  /** Sets the function that lists the models on offer, by each route, at each scrape. */
  watchModels(list: () => readonly UpstreamModel[]): void;
  /** Sets the functions that are read at each scrape. */
  watchHolds(look: () => Promise<number>): void;
  watchDatabase(state: () => DatabaseState, figures: () => DatabaseFigures): void;
}

/** Registers the metrics in `registers`. */
export function createOperationMetrics(registers: Registry[], known: KnownLabels): OperationMetrics {
  const build = new Gauge({
    name: "purser_build_info",
    help: "1, with the versions of this node",
    labelNames: ["version", "node"],
    registers,
  });
  build.set({ version: RELEASE, node: process.versions.node }, 1);
  const http_errors = new Counter({
    name: "purser_http_errors_total",
    help: "Error answers by their code, such as out_of_tokens",
    labelNames: ["code"],
    registers,
  });
  const output = new Counter({
    name: "purser_model_output_tokens_total",
    help: "Raw output tokens",
    labelNames: ["model"],
    registers,
  });
  const skew = new Gauge({
    name: "purser_clock_skew_seconds",
    help: "By how much this node's clock is ahead of the database's",
    registers,
  });
  for (const code of known.http_errors) http_errors.inc({ code }, 0);
  return {
    httpError: (code) => http_errors.inc({ code }),
    modelOutput: (model, tokens) => output.inc({ model }, tokens),
    clockSkew: (seconds) => skew.set(seconds),
    ...failureMetrics(registers, known),
    ...upstreamMetrics(registers),
    ...databaseMetrics(registers),
    ...sweepMetrics(registers),
  };
}

function failureMetrics(
  registers: Registry[],
  known: KnownLabels,
): Pick<OperationMetrics, "toolFailed" | "vaultFailed" | "paymentEventsRead"> {
  const tools = new Counter({
    name: "purser_tool_failures_total",
    help: "Failed calls of tools, by error code",
    labelNames: ["tool", "code"],
    registers,
  });
  const vault = new Counter({
    name: "purser_vault_errors_total",
    help: "Errors of the vault; cause: key_service, data_key (it does not open) or rows (changed outside Purser)",
    labelNames: ["cause"],
    registers,
  });
  const missed_events = new Counter({
    name: "purser_payment_events_missed_total",
    help: "Payment events that the provider's webhook did not deliver and that Purser read from its list: should stay 0",
    registers,
  });
  const reads = new Counter({
    name: "purser_payment_event_reads_total",
    help: "Pages of the payment provider's list of events; outcome: read, or failed in whole or in part",
    labelNames: ["outcome"],
    registers,
  });
  for (const tool of known.tools) for (const code of known.tool_errors) tools.inc({ tool, code }, 0);
  for (const cause of known.vault_errors) vault.inc({ cause }, 0);
  for (const outcome of ["read", "failed"]) reads.inc({ outcome }, 0);
  return {
    toolFailed: (tool, code) => tools.inc({ tool, code }),
    vaultFailed: (cause) => vault.inc({ cause }),
    paymentEventsRead({ failed, missed }) {
      reads.inc({ outcome: failed ? "failed" : "read" });
      missed_events.inc(missed);
    },
  };
}

function upstreamMetrics(
  registers: Registry[],
): Pick<OperationMetrics, "upstream" | "upstreamCost" | "usageDisbelieved" | "watchModels"> {
  const labelNames = ["provider", "model"];
  const duration = new Histogram({
    name: "purser_upstream_duration_seconds",
    help: "Successful calls of providers: whole answers",
    labelNames,
    buckets: UPSTREAM_SECONDS,
    registers,
  });
  const first = new Histogram({
    name: "purser_upstream_first_token_seconds",
    help: "Successful calls of providers: streams until their first event",
    labelNames,
    buckets: UPSTREAM_SECONDS,
    registers,
  });
  let listModels = (): readonly UpstreamModel[] => [];
  const failures = new Counter({
    name: "purser_upstream_errors_total",
    help: "Failed attempts at providers, by error code",
    labelNames: [...labelNames, "code"],
    registers,
    // A reload changes the models.
    collect() {
      for (const { provider, model } of listModels()) {
        for (const code of UPSTREAM_FAILURES) this.inc({ provider, model, code }, 0);
      }
    },
  });
  const cost = new Counter({
    name: "purser_upstream_cost_usd_total",
    help: "What providers charge for settled calls, for models whose upstream prices are known",
    labelNames: ["model"],
    registers,
  });
  const disbelieved = new Counter({
    name: "purser_usage_reports_disbelieved_total",
    help: "Usage reports of providers above what the call can have used; its tokens are estimated",
    labelNames,
    registers,
    collect() {
      for (const { provider, model } of listModels()) this.inc({ provider, model }, 0);
    },
  });
  return {
    watchModels(list) {
      listModels = list;
    },
    usageDisbelieved: ({ provider, model }) => disbelieved.inc({ provider, model }),
    upstreamCost(model, micro_usd) {
      if (micro_usd !== null && micro_usd > 0) cost.inc({ model }, micro_usd / 1_000_000);
    },
    upstream({ provider, model }, { ms, code, streamed }) {
      if (code !== null) failures.inc({ provider, model, code });
      else (streamed ? first : duration).observe({ provider, model }, ms / 1_000);
    },
  };
}

function databaseMetrics(registers: Registry[]) {
  const statements = new Histogram({
    name: "purser_database_statement_seconds",
    help: "Statements outside transactions, with the wait for a connection",
    buckets: STATEMENT_SECONDS,
    registers,
  });
  return {
    statement: (ms: number) => statements.observe(ms / 1_000),
    watchHolds(look: () => Promise<number>) {
      const gauge = { name: "purser_holds_open", help: "Open holds over all nodes, counted up to 20000", registers };
      addLookedUpGauge(gauge, () => lookBriefly(look));
    },
    watchDatabase(state: () => DatabaseState, figures: () => DatabaseFigures) {
      new Gauge({
        name: "purser_database_up",
        help: "0 while the database does not answer, or rejects writes because its disk is full",
        registers,
        collect() {
          this.set(state() === "up" ? 1 : 0);
        },
      });
      new Gauge({
        name: "purser_database_connections",
        help: "Connections of this node's pool, and callers that wait for one",
        labelNames: ["state"],
        registers,
        collect() {
          const { busy, idle, waiting } = figures();
          for (const [name, count] of Object.entries({ busy, idle, waiting })) this.set({ state: name }, count);
        },
      });
    },
  };
}

function sweepMetrics(registers: Registry[]): Pick<OperationMetrics, "swept"> {
  const swept_ms = new Map<string, number>();
  new Gauge({
    name: "purser_sweep_age_seconds",
    help: "The time since background work last succeeded",
    labelNames: ["source"],
    registers,
    collect() {
      for (const [source, at_ms] of swept_ms) this.set({ source }, (monotonicMs() - at_ms) / 1_000);
    },
  });
  return { swept: (source) => void swept_ms.set(source, monotonicMs()) };
}

/** A figure that is read from the database at a scrape; null if that fails or takes too long. */
export function lookBriefly<Figure>(look: () => Promise<Figure>): Promise<Figure | null> {
  return Promise.race([look(), delay(LOOK_MS, null, { ref: false })]).catch(() => null);
}

/** A gauge whose figure is looked up at each scrape, and that is left out where it is null. */
export function addLookedUpGauge(
  gauge: { name: string; help: string; registers: Registry[] },
  look: () => Promise<number | null>,
): void {
  new Gauge({
    ...gauge,
    async collect() {
      const figure = await look();
      if (figure === null) this.remove();
      else this.set(figure);
    },
  });
}
