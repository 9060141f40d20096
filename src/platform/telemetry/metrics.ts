import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "@prometheus-io/client";
import {
  addLookedUpGauge,
  createOperationMetrics,
  type KnownLabels,
  lookBriefly,
  NO_LABELS,
  type OperationMetrics,
} from "./operation-metrics.ts";

/** The queue of runs over all nodes. */
export interface QueueFigures {
  queued: number;
  /** Waiting time of the oldest run; 0 when there is none. */
  oldest_ms: number;
}

/** The metrics that Prometheus scrapes. Labels never carry ids of users, names or user input; a model is one on offer. */
export interface Metrics extends OperationMetrics {
  request(labels: { method: string; route: string; status: number }, duration_ms: number): void;
  modelCall(outcome: (typeof CALL_OUTCOMES)[number], cost_tokens: number): void;
  /** Input tokens of a settled call, by what its provider's cache did with them. */
  modelInput(model: string, tokens: { cached: number; written: number; plain: number }): void;
  absorbed(tokens: number): void;
  /** `error`: the error code of a failed run. */
  runFinished(status: string, error: string | null): void;
  /** A scheduled run has begun, `lateness_ms` after its scheduled instant. */
  scheduledRunBegan(lateness_ms: number): void;
  /** Sets the function that reads the queue at each scrape of the metrics. */
  watchQueue(look: () => Promise<QueueFigures>): void;
  /** Sets the function that reads the age of the last backup at each scrape; null: there is none. */
  watchBackup(lookForAge: () => Promise<number | null>): void;
  runsInProgress(count: number): void;
  noticeTry(outcome: (typeof NOTICE_OUTCOMES)[number]): void;
  /** A delivery to a trigger. */
  triggerDelivery(outcome: (typeof TRIGGER_OUTCOMES)[number]): void;
  /** A try to send a mail; `link`: of a sign-up or a reset. */
  mailTry(kind: (typeof MAIL_KINDS)[number], outcome: (typeof MAIL_OUTCOMES)[number]): void;
  text(): Promise<string>;
  readonly content_type: string;
}

const NOTICE_OUTCOMES = ["delivered", "retry", "failed", "gone"] as const;
const TRIGGER_OUTCOMES = ["run", "filtered", "failed", "repeated", "rejected", "limited"] as const;
const MAIL_KINDS = ["link", "notice", "result"] as const;
const MAIL_OUTCOMES = ["sent", "retry", "failed"] as const;
const CALL_OUTCOMES = ["settled", "released", "refused"] as const;

/** Metrics of Node whose names break Prometheus' rules. Others say the same: `nodejs_active_resources`, the lag. */
const MISNAMED = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
  "nodejs_eventloop_utilization_histogram",
  "nodejs_eventloop_utilization_summary",
];

/** Metrics of this process, with Node's default metrics. Counters begin at 0 for each label value in `known`. */
export function createMetrics(known: KnownLabels = NO_LABELS): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  const registers = [registry];
  const requests = new Histogram({
    name: "purser_http_request_duration_seconds",
    help: "HTTP requests until the headers are sent",
    labelNames: ["method", "route", "status"],
    buckets: [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60],
    registers,
  });
  const calls = new Counter({
    name: "purser_model_calls_total",
    help: "Model calls",
    labelNames: ["outcome"],
    registers,
  });
  const cost = new Counter({ name: "purser_cost_tokens_total", help: "Billed tokens", registers });
  const input = new Counter({
    name: "purser_model_input_tokens_total",
    help: "Raw input tokens; cache: read, written or none. The cached share of a model is read / all",
    labelNames: ["model", "cache"],
    registers,
  });
  const absorbed = new Counter({
    name: "purser_absorbed_tokens_total",
    help: "Billed tokens that no balance covered: should stay 0",
    registers,
  });
  const runs = new Counter({
    name: "purser_runs_total",
    help: "Runs that began and ended; error: the code of a failed run",
    labelNames: ["status", "error"],
    registers,
  });
  const queue = queueMetrics(registers);
  const inProgress = new Gauge({ name: "purser_runs_in_progress", help: "Runs that this node works on", registers });
  const notices = new Counter({
    name: "purser_notice_tries_total",
    help: "Tries to deliver a notice, by outcome",
    labelNames: ["outcome"],
    registers,
  });
  const deliveries = new Counter({
    name: "purser_trigger_deliveries_total",
    help: "Deliveries to triggers; rejected: without a valid signature, limited: too many",
    labelNames: ["outcome"],
    registers,
  });
  const mails = new Counter({
    name: "purser_mail_tries_total",
    help: "Tries to send a mail, by outcome; kind: link (of a sign-up or a reset) or notice",
    labelNames: ["kind", "outcome"],
    registers,
  });
  for (const outcome of CALL_OUTCOMES) calls.inc({ outcome }, 0);
  for (const status of ["succeeded", "cancelled"]) runs.inc({ status }, 0);
  for (const error of known.run_errors) runs.inc({ status: "failed", error }, 0);
  for (const outcome of NOTICE_OUTCOMES) notices.inc({ outcome }, 0);
  for (const outcome of TRIGGER_OUTCOMES) deliveries.inc({ outcome }, 0);
  for (const kind of MAIL_KINDS) for (const outcome of MAIL_OUTCOMES) mails.inc({ kind, outcome }, 0);
  return {
    request: (labels, duration_ms) => requests.observe(labels, duration_ms / 1000),
    modelCall: (outcome, cost_tokens) => {
      calls.inc({ outcome });
      if (cost_tokens > 0) cost.inc(cost_tokens);
    },
    modelInput: (model, { cached, written, plain }) => {
      if (cached > 0) input.inc({ model, cache: "read" }, cached);
      if (written > 0) input.inc({ model, cache: "written" }, written);
      input.inc({ model, cache: "none" }, plain);
    },
    absorbed: (tokens) => absorbed.inc(tokens),
    runFinished: (status, error) => runs.inc(error === null ? { status } : { status, error }),
    ...queue,
    ...createOperationMetrics(registers, known),
    watchBackup: (lookForAge) => {
      const help = "Since the last backup that the service made; absent if it has made none";
      addLookedUpGauge({ name: "purser_backup_age_seconds", help, registers }, async () => {
        const age_ms = await lookBriefly(lookForAge);
        return age_ms === null ? null : age_ms / 1000;
      });
    },
    runsInProgress: (count) => inProgress.set(count),
    triggerDelivery: (outcome) => deliveries.inc({ outcome }),
    noticeTry: (outcome) => notices.inc({ outcome }),
    mailTry: (kind, outcome) => mails.inc({ kind, outcome }),
    text: () => registry.metrics(),
    content_type: registry.contentType,
  };
}

function queueMetrics(registers: Registry[]): Pick<Metrics, "scheduledRunBegan" | "watchQueue"> {
  const lateness = new Histogram({
    name: "purser_scheduled_run_lateness_seconds",
    help: "From a scheduled run's instant until it began",
    buckets: [0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400, 43_200],
    registers,
  });
  return {
    scheduledRunBegan: (lateness_ms) => lateness.observe(Math.max(0, lateness_ms) / 1000),
    watchQueue: (look) => {
      let looking: Promise<QueueFigures | null> | null = null;
      // Both gauges share one read of the queue. If the database is unavailable, the other metrics are still shown.
      const seen = () => {
        looking ??= lookBriefly(look).finally(() => {
          looking = null;
        });
        return looking;
      };
      const gauge = (name: string, help: string, figureOf: (figures: QueueFigures) => number) =>
        addLookedUpGauge({ name, help, registers }, async () => {
          const figures = await seen();
          return figures === null ? null : figureOf(figures);
        });
      gauge("purser_runs_queued", "Runs in the queue, over all nodes, counted up to 20000", ({ queued }) => queued);
      gauge(
        "purser_runs_queued_oldest_seconds",
        "For how long the oldest run in the queue, over all nodes, has been there",
        ({ oldest_ms }) => oldest_ms / 1000,
      );
    },
  };
}
