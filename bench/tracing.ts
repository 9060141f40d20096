import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { startPostgres } from "../test/support/postgres-server.ts";
import { startInstantModel } from "./support/instant-model.ts";
import type { Target } from "./support/load.ts";
import type { Effort, Outcome } from "./support/outcome.ts";
import { onLoadCore } from "./support/processes.ts";
import { completionTarget, type ProcessorMeasure, processorLoad, processorTable } from "./support/processor-load.ts";
import { type BenchService, configure, createPlace, startService } from "./support/service.ts";
import { inTurn, pairedRatio } from "./support/statistics.ts";

/** Short rounds, because a shared machine changes its speed within seconds. */
const LOAD_SECONDS = 0.4;
const ROUNDS = 30;
/** Until the compiler has optimized the path of a completion. */
const WARM_SECONDS = 8;

const OFF = "neither logs nor traces";
const OFF_AGAIN = "neither, a second service";
const NOT_SAMPLED = "access logs, traces that the caller does not sample";
const ALL = "access logs and all traces";
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";

/**
 * Processor time of a completion on PostgreSQL, with and without access logs and traces, paired in each round. One
 * service serves both kinds of traces, since two processes differ by several percent.
 */
export async function tracing({ rounds, scale }: Effort): Promise<Outcome> {
  const [postgres, model, collector] = [await startPostgres(), await startInstantModel(), await startCollector()];
  const services: BenchService[] = [];
  const started = async (env: Record<string, string>) => {
    const place = await createPlace(postgres);
    configure(place, model.url);
    Object.assign(place.env, env);
    const service = await startService(place, { core: "service" });
    services.push(service);
    return { service, target: completionTarget(service, (await service.newUser()).key) };
  };
  try {
    const off = await started({ LOG_LEVEL: "warn" });
    const off_again = await started({ LOG_LEVEL: "warn" });
    const on = await started({ LOG_LEVEL: "info", OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    const contenders = new Map([
      [OFF, off],
      [OFF_AGAIN, off_again],
      [NOT_SAMPLED, { ...on, target: inTrace(on.target, `00-${TRACE}-00`) }],
      [ALL, { ...on, target: inTrace(on.target, `00-${TRACE}-01`) }],
    ]);
    const load = (seconds: number) =>
      new Map(
        [...contenders].map(([name, { service, target }]) => [
          name,
          () => processorLoad(name, service, { target, seconds }),
        ]),
      );
    const found = await onLoadCore(async () => {
      await inTurn(load(WARM_SECONDS * scale), 1);
      return inTurn(load(LOAD_SECONDS), Math.ceil(rounds * ROUNDS * scale));
    });
    return outcomeOf(found, collector.received_bytes());
  } finally {
    for (const service of services) await service.stop();
    model.close();
    collector.close();
    await postgres.stop();
  }
}

function outcomeOf(found: ReadonlyMap<string, ProcessorMeasure[]>, received_bytes: number): Outcome {
  if (received_bytes === 0) throw new Error("the collector got no traces");
  const ratio = (of: string, to: string, figure: keyof ProcessorMeasure) =>
    pairedRatio(found.get(of), found.get(to), (each) => each[figure]);
  const pairs: [of: string, to: string][] = [
    [OFF_AGAIN, OFF],
    [NOT_SAMPLED, OFF],
    [ALL, OFF],
    [ALL, NOT_SAMPLED],
  ];
  return {
    name: "tracing",
    title: "Access logs and traces",
    tables: [processorTable(found)],
    ratios: pairs.flatMap(([of, to]) => [
      { of: `${of}, processor time`, to, value: ratio(of, to, "processor_ms"), goal: "≤ 1.05" },
      { of: `${of}, requests/s`, to, value: ratio(of, to, "per_second"), goal: "≥ 0.95" },
    ]),
  };
}

function inTrace(target: Target, traceparent: string): Target {
  return { ...target, headers: { ...target.headers, traceparent } };
}

/** A collector that accepts every span. */
async function startCollector() {
  let received_bytes = 0;
  const server = createServer((request, response) => {
    request.on("data", (bytes: Buffer) => {
      received_bytes += bytes.length;
    });
    request.on("end", () => response.setHeader("content-type", "application/json").end("{}"));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${port}`, received_bytes: () => received_bytes, close };
}
