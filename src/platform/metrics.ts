import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

/** What Prometheus scrapes. Labels never carry ids, names or anything a user typed. */
export interface Metrics {
  request(method: string, status: number, duration_ms: number): void;
  modelCall(outcome: "settled" | "released" | "refused", cost_tokens: number): void;
  absorbed(tokens: number): void;
  runFinished(status: string): void;
  runsInProgress(count: number): void;
  noticeTry(outcome: "delivered" | "retry" | "failed" | "gone"): void;
  text(): Promise<string>;
  readonly content_type: string;
}

/** Counters of this process, with Node's own. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const requests = new Histogram({
    name: "purser_http_request_duration_seconds",
    help: "HTTP requests until the headers are sent",
    labelNames: ["method", "status"],
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
  const absorbed = new Counter({
    name: "purser_absorbed_tokens_total",
    help: "Billed tokens that no balance covered: should stay 0",
    registers,
  });
  const runs = new Counter({ name: "purser_runs_total", help: "Finished runs", labelNames: ["status"], registers });
  const inProgress = new Gauge({ name: "purser_runs_in_progress", help: "Runs that this node works on", registers });
  const notices = new Counter({
    name: "purser_notice_tries_total",
    help: "Tries to deliver a notice, by what came of them",
    labelNames: ["outcome"],
    registers,
  });
  return {
    request: (method, status, duration_ms) => requests.observe({ method, status }, duration_ms / 1000),
    modelCall: (outcome, cost_tokens) => {
      calls.inc({ outcome });
      if (cost_tokens > 0) cost.inc(cost_tokens);
    },
    absorbed: (tokens) => absorbed.inc(tokens),
    runFinished: (status) => runs.inc({ status }),
    runsInProgress: (count) => inProgress.set(count),
    noticeTry: (outcome) => notices.inc({ outcome }),
    text: () => registry.metrics(),
    content_type: registry.contentType,
  };
}
