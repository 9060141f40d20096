import { fileURLToPath } from "node:url";
import { startPostgres } from "../test/support/postgres-server.ts";
import { endpoints } from "./endpoints.ts";
import { startNginx } from "./peers/nginx.ts";
import { portkeyHeaders, startPortkey } from "./peers/portkey.ts";
import { checked, closedLoop, type LoadMeasure, openLoop, type Target } from "./support/load.ts";
import type { Effort, Outcome, Ratio, Table } from "./support/outcome.ts";
import { onLoadCore, processorMs, residentMb, type ServerProcess, startServer } from "./support/processes.ts";
import { type BenchService, configure, createPlace, startService } from "./support/service.ts";
import { inTurn, median, medianOf, pairedRatio } from "./support/statistics.ts";

const CALLERS = [1, 32, 256] as const;
const STREAM_CALLERS = 32;
const LOAD_SECONDS = 1.5;
/** A service that had been under load for 4 s did 0.83 of the requests of one that had been for 60 s. */
const WARM_UP_SECONDS = 8;
const PACED_PER_SECOND = 100;
const PACED_SECONDS = 2;
const PURSER_ON_POSTGRES = "Purser, PostgreSQL";
const PURSER_EMBEDDED = "Purser, embedded";
const DIRECT = "the upstream alone";
const BARE = "bare Node proxy";
const PORTKEY = "@portkey-ai/gateway 1.15.2";
const NGINX = "nginx";

const UPSTREAM = fileURLToPath(import.meta.resolve("./peers/upstream.ts"));
const BARE_PROXY = fileURLToPath(import.meta.resolve("./peers/bare-proxy.ts"));
export const MESSAGES = [
  { role: "system", content: "You are a helpful assistant." },
  { role: "user", content: "Tell me in one paragraph what a purser does on a ship." },
];

type Goals = { "32 callers"?: string; "256 callers"?: string; streams?: string };
/** The goals for the ratio of one figure to another. */
const GOALS: Record<string, Goals> = {
  [`${PURSER_ON_POSTGRES} / ${PORTKEY}`]: { "32 callers": "≥ 2", "256 callers": "≥ 2", streams: "≥ 2" },
  [`${PURSER_EMBEDDED} / ${PORTKEY}`]: { "32 callers": "≥ 1.2", "256 callers": "≥ 1.2", streams: "≥ 1.2" },
  [`${PURSER_ON_POSTGRES} / ${NGINX}`]: { streams: "≥ 0.7" },
};

/** One route to the upstream. */
interface Route {
  process: ServerProcess;
  path: string;
  headers: Record<string, string>;
  /** The prefix of the model's name. */
  prefix: string;
}

/** Chat completions through Purser, beside the same upstream without it and beside other proxies. */
export async function completions(effort: Effort): Promise<Outcome> {
  const started: { stop(): Promise<void> }[] = [];
  try {
    const routes = await startRoutes(effort, started);
    return await onLoadCore(() => measure(routes, effort));
  } finally {
    for (const each of started.toReversed()) await each.stop();
  }
}

async function startRoutes(effort: Effort, started: { stop(): Promise<void> }[]): Promise<Map<string, Route>> {
  const keep = <Each extends { stop(): Promise<void> }>(each: Each): Each => {
    started.push(each);
    return each;
  };
  const postgres = keep(await startPostgres());
  const upstream = keep(await startServer([process.execPath, UPSTREAM], { core: "load" }));
  const bare = keep(await startServer([process.execPath, BARE_PROXY, upstream.url], { core: "service" }));
  const plain = { path: "/v1/chat/completions", headers: {}, prefix: "" };
  const routes = new Map<string, Route>([
    [DIRECT, { process: upstream, ...plain }],
    [BARE, { process: bare, ...plain }],
  ]);
  for (const [name, server] of [[PURSER_ON_POSTGRES, postgres] as const, [PURSER_EMBEDDED, null] as const]) {
    const place = await createPlace(server);
    started.push({ stop: place.drop });
    configure(place, upstream.url);
    routes.set(name, await routeThrough(keep(await startService(place, { core: "service" }))));
  }
  if (effort.peers) {
    const portkey = keep(await startPortkey());
    routes.set(PORTKEY, { process: portkey, ...plain, headers: portkeyHeaders(upstream.url) });
    const nginx = await startNginx(upstream.url);
    if (nginx !== null) routes.set(NGINX, { process: keep(nginx), ...plain });
  }
  return routes;
}

async function routeThrough(service: BenchService): Promise<Route> {
  const { key } = await service.newUser();
  const headers = { authorization: `Bearer ${key}` };
  return { process: service, path: "/api/v1/chat/completions", headers, prefix: "bench/" };
}

function targetOf({ process: { port }, path, headers, prefix }: Route, model: string, more: object = {}): Target {
  return { port, path, headers, body: { model: `${prefix}${model}`, messages: MESSAGES, ...more } };
}

/** The measure of a load, with the proxy's processor time per request. */
type LoadSample = LoadMeasure & { processor_ms: number };

async function underLoad(
  name: string,
  route: Route,
  target: Target,
  load: { callers: number; seconds: number },
): Promise<LoadSample> {
  const before_ms = processorMs(route.process.pid);
  const measure = await checked(name, closedLoop(target, load));
  return { ...measure, processor_ms: (processorMs(route.process.pid) - before_ms) / measure.answers };
}

/** The same call by each endpoint, on the same process. */
function measureEndpoints(route: Route | undefined, { rounds, scale }: Effort) {
  if (route === undefined) throw new Error("no Purser on PostgreSQL");
  const { headers, process } = route;
  return endpoints({ port: process.port, headers, model: "bench/instant", rounds }, (name, target) =>
    checked(name, closedLoop(target, { callers: STREAM_CALLERS, seconds: LOAD_SECONDS * scale })),
  );
}

async function measure(routes: Map<string, Route>, effort: Effort): Promise<Outcome> {
  const seconds = LOAD_SECONDS * effort.scale;
  const contenders = (measureOf: (name: string, route: Route) => Promise<LoadSample>) =>
    inTurn(new Map([...routes].map(([name, route]) => [name, () => measureOf(name, route)])), effort.rounds);
  const idle_mb = new Map([...routes].map(([name, route]) => [name, residentMb(route.process.pid)]));

  // Warm up compilers and connection pools before measuring.
  const warm_up = { callers: STREAM_CALLERS, seconds: WARM_UP_SECONDS * effort.scale };
  for (const [name, route] of routes) {
    await underLoad(name, route, targetOf(route, "instant"), warm_up);
    await underLoad(name, route, targetOf(route, "instant", { stream: true }), warm_up);
  }
  const whole: Map<string, LoadSample[]>[] = [];
  for (const callers of CALLERS) {
    whole.push(
      await contenders((name, route) => underLoad(name, route, targetOf(route, "instant"), { callers, seconds })),
    );
  }
  const streams = await contenders((name, route) =>
    underLoad(name, route, targetOf(route, "instant", { stream: true }), { callers: STREAM_CALLERS, seconds }),
  );
  const pace = { per_second: PACED_PER_SECOND, seconds: PACED_SECONDS * effort.scale };
  const paced = await inTurn(
    new Map([...routes].map(([name, route]) => [name, () => checked(name, openLoop(targetOf(route, "slow"), pace))])),
    effort.rounds,
  );

  const shapes = await measureEndpoints(routes.get(PURSER_ON_POSTGRES), effort);

  const names = [...routes.keys()];
  const table = (caption: string, columns: readonly string[], values: (name: string) => number[]): Table => ({
    caption,
    columns,
    rows: names.map((name) => ({ name, values: values(name) })),
  });
  const per_second = (found: Map<string, LoadSample[]> | undefined) => (name: string) =>
    medianOf(found?.get(name), (each) => each.per_second);
  /** Each round's milliseconds beyond what the upstream alone takes. */
  const added = (name: string, at: "p50_ms" | "p99_ms") =>
    (paced.get(name) ?? []).map((each, round) => each[at] - (paced.get(DIRECT)?.[round]?.[at] ?? 0));
  return {
    name: "completions",
    title: "Chat completions",
    tables: [
      {
        ...table(
          "Requests a second at 1, 32 and 256 callers; latency and processor time",
          [
            "1 caller",
            "32 callers",
            "256 callers",
            "p50 at 1, ms",
            "p50 at 32, ms",
            "p99 at 32, ms",
            "p99 at 256, ms",
            "processor at 32, ms",
          ],
          (name) => [
            ...whole.map((found) => per_second(found)(name)),
            medianOf(whole[0]?.get(name), (each) => each.p50_ms),
            medianOf(whole[1]?.get(name), (each) => each.p50_ms),
            medianOf(whole[1]?.get(name), (each) => each.p99_ms),
            medianOf(whole[2]?.get(name), (each) => each.p99_ms),
            medianOf(whole[1]?.get(name), (each) => each.processor_ms),
          ],
        ),
        drawn: [1],
      },
      {
        ...table(
          "Streams of 64 chunks a second at 32 callers",
          ["streams/s", "first byte p50, ms", "first byte p99, ms", "processor, ms"],
          (name) => [
            per_second(streams)(name),
            medianOf(streams.get(name), (each) => each.first_byte_p50_ms),
            medianOf(streams.get(name), (each) => each.first_byte_p99_ms),
            medianOf(streams.get(name), (each) => each.processor_ms),
          ],
        ),
        drawn: [0],
      },
      table(
        `Latency added to an upstream of 200 ms at ${PACED_PER_SECOND} requests a second`,
        ["p50, ms", "p99, ms"],
        (name) => [median(added(name, "p50_ms")), median(added(name, "p99_ms"))],
      ),
      table("Resident memory", ["at first, MB", "after these loads, MB"], (name) => [
        idle_mb.get(name) ?? Number.NaN,
        residentMb(routes.get(name)?.process.pid ?? 0),
      ]),
      shapes.table,
    ],
    ratios: [...[BARE, NGINX, PORTKEY].filter((name) => routes.has(name)).flatMap(ratiosTo), ...shapes.ratios],
  };

  function ratiosTo(to: string): Ratio[] {
    const ratio = (name: string, what: keyof Goals, found: Map<string, LoadSample[]> | undefined): Ratio => {
      const value = pairedRatio(found?.get(name), found?.get(to), (each) => each.per_second);
      return { of: `${name}, ${what}`, to, value, goal: GOALS[`${name} / ${to}`]?.[what] ?? "" };
    };
    return [PURSER_ON_POSTGRES, PURSER_EMBEDDED].flatMap((name) => [
      ratio(name, "32 callers", whole[1]),
      ratio(name, "256 callers", whole[2]),
      ratio(name, "streams", streams),
      {
        of: `${name}, latency added to 200 ms (p50)`,
        to,
        value: pairedRatio(added(name, "p50_ms"), added(to, "p50_ms"), Number),
        goal: name === PURSER_ON_POSTGRES && to === PORTKEY ? "≤ 2" : "",
      },
    ]);
  }
}
