import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { startPostgres } from "../test/support/postgres-server.ts";
import { startInstantModel } from "./support/instant-model.ts";
import { closedLoop, type Target } from "./support/load.ts";
import type { Effort, Outcome } from "./support/outcome.ts";
import { onLoadCore, processorMs } from "./support/processes.ts";
import { type BenchService, configure, createPlace, startService } from "./support/service.ts";
import { inTurn, median, medianOf } from "./support/statistics.ts";

const CALLERS = 8;
const LOAD_SECONDS = 1;
const ROUNDS = 12;
/** The share of traces that a busy service records. */
const SAMPLED = "0.1";

/** What the services differ in. The first is the base of the ratios, and the second shows how exact they are. */
const KINDS: Record<string, (collector_url: string) => Record<string, string>> = {
  "neither logs nor traces": () => ({ LOG_LEVEL: "warn" }),
  "neither, a second service": () => ({ LOG_LEVEL: "warn" }),
  "access logs": () => ({ LOG_LEVEL: "info" }),
  "access logs and a tenth of the traces": (url) => ({
    LOG_LEVEL: "info",
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
    OTEL_TRACES_SAMPLER_ARG: SAMPLED,
  }),
  "access logs and all traces": (url) => ({ LOG_LEVEL: "info", OTEL_EXPORTER_OTLP_ENDPOINT: url }),
};

/** Processor time of a completion on PostgreSQL, with and without access logs and traces, paired in each round. */
export async function tracing({ rounds, scale }: Effort): Promise<Outcome> {
  const [postgres, model, collector] = [await startPostgres(), await startInstantModel(), await startCollector()];
  const services: BenchService[] = [];
  try {
    const contenders = new Map<string, () => Promise<{ processor_ms: number; per_second: number }>>();
    for (const [name, envOf] of Object.entries(KINDS)) {
      const place = await createPlace(postgres);
      configure(place, model.url);
      Object.assign(place.env, envOf(collector.url));
      const service = await startService(place, { core: "service" });
      services.push(service);
      const target = await targetOf(service);
      contenders.set(name, () => loaded(service, target, LOAD_SECONDS * scale));
    }
    const found = await onLoadCore(async () => {
      await inTurn(contenders, 1);
      return inTurn(contenders, rounds * ROUNDS);
    });
    const [base = [], ...others] = [...found.values()];
    const ratioTo = (measures: typeof base) =>
      median(measures.map(({ processor_ms }, round) => processor_ms / (base[round]?.processor_ms ?? Number.NaN)));
    const names = Object.keys(KINDS);
    return {
      name: "tracing",
      title: "Access logs and traces",
      tables: [
        {
          caption: `Completions by ${CALLERS} callers on PostgreSQL`,
          columns: ["processor, ms", "requests/s"],
          rows: names.map((name) => ({
            name,
            values: [
              medianOf(found.get(name), (each) => each.processor_ms),
              medianOf(found.get(name), (each) => each.per_second),
            ],
          })),
        },
      ],
      ratios: others.map((measures, nth) => ({
        of: `${names[nth + 1]}, processor time`,
        to: names[0] as string,
        value: ratioTo(measures),
        goal: "≤ 1.05",
      })),
    };
  } finally {
    for (const service of services) await service.stop();
    model.close();
    collector.close();
    await postgres.stop();
  }
}

async function targetOf(service: BenchService): Promise<Target> {
  const { key } = await service.newUser();
  const body = { model: "bench/instant", messages: [{ role: "user", content: "What does a purser do on a ship?" }] };
  return { port: service.port, path: "/api/v1/chat/completions", headers: { authorization: `Bearer ${key}` }, body };
}

async function loaded(service: BenchService, target: Target, seconds: number) {
  const before_ms = processorMs(service.pid);
  const measure = await closedLoop(target, { callers: CALLERS, seconds });
  if (measure.failures > 0) throw new Error(`${measure.failures} failures, the first: ${measure.failure}`);
  return { per_second: measure.per_second, processor_ms: (processorMs(service.pid) - before_ms) / measure.answers };
}

/** A collector that accepts every span. */
async function startCollector() {
  const server = createServer((request, response) => {
    request.resume().on("end", () => response.setHeader("content-type", "application/json").end("{}"));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${port}`, close };
}
