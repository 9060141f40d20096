import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { runSql, startPostgres } from "../test/support/postgres-server.ts";
import { agentRunTarget, allowMany } from "./agent-runs.ts";
import { MESSAGES } from "./completions.ts";
import { startInstantModel } from "./support/instant-model.ts";
import { checked, closedLoop, type LoadMeasure, type Target } from "./support/load.ts";
import { printOutcome } from "./support/print.ts";
import { onLoadCore, processorMs, processorMsBelow, startServer } from "./support/processes.ts";
import { type BenchService, configure, createFolderPlace, startService } from "./support/service.ts";
import { inTurn, medianOf, pairedRatio } from "./support/statistics.ts";

// `npm run versions -- --base DIR [--load runs|chat|streams|messages] [--callers 1,32] [--embedded] [--rounds 11] [--seconds 1]`:
// this version beside another checkout, with its packages installed, in many short rounds. Single runs of the
// benchmarks vary by half, which is more than most changes. `--profile DIR` also writes a profile of each service.

const UPSTREAM = fileURLToPath(import.meta.resolve("./peers/upstream.ts"));
const NOW = "this version";
const BASE = "the base";
const WARM_UP = { callers: 32, seconds: 4 };

const { values: options } = parseArgs({
  options: {
    base: { type: "string" },
    load: { type: "string", default: "runs" },
    callers: { type: "string", default: "1,32" },
    embedded: { type: "boolean", default: false },
    rounds: { type: "string", default: "11" },
    seconds: { type: "string", default: "1" },
    profile: { type: "string" },
  },
});
if (options.base === undefined) throw new Error("--base takes the folder of the other checkout");
const seconds = Number(options.seconds);
const rounds = Number(options.rounds);

interface Version {
  service: BenchService;
  target: Target;
  /** Of its own PostgreSQL server; null on embedded storage. */
  postgres_pid: number | null;
}

/** The measure of one round, with processor times per answer. */
type Round = LoadMeasure & { service_ms: number; postgres_ms: number };

const started: { stop(): unknown }[] = [];

async function startVersion(root: string, name: string, upstream_url: string): Promise<Version> {
  const folder = mkdtempSync(join(tmpdir(), "purser-version-"));
  const postgres = options.embedded ? null : await startPostgres({ folder });
  if (postgres !== null) started.push(postgres);
  await (postgres === null ? null : runSql(postgres.url("postgres"), "create database bench"));
  const place = createFolderPlace(postgres?.url("bench") ?? null);
  started.push({ stop: place.drop });
  configure(place, upstream_url);
  allowMany(place.env.PURSER_CONFIG ?? "");
  const profile = options.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${join(options.profile, name)}`];
  // The second is its place in earlier versions.
  const main = ["src/cli/main.ts", "src/main.ts"].map((file) => join(root, file)).find(existsSync);
  if (main === undefined) throw new Error(`${root} has no src/cli/main.ts`);
  const service = await startService(place, { core: "service", main, node_args: profile });
  started.push(service);
  const { key } = await service.newUser();
  const postmaster = () => readFileSync(join(folder, "data/postmaster.pid"), "utf8");
  return {
    service,
    target: options.load === "runs" ? await agentRunTarget(service, key) : chatTarget(service, key),
    postgres_pid: postgres === null ? null : Number.parseInt(postmaster(), 10),
  };
}

function chatTarget({ port }: BenchService, key: string): Target {
  const headers = { authorization: `Bearer ${key}` };
  const stream = options.load === "chat" ? {} : { stream: true };
  const body = { model: "bench/instant", messages: MESSAGES, ...stream };
  if (options.load !== "messages") return { port, path: "/api/v1/chat/completions", headers, body };
  // Translated: the upstream has chat completions.
  const messages = MESSAGES.filter(({ role }) => role === "user");
  return { port, path: "/api/v1/messages", headers, body: { ...body, messages, max_tokens: 1_000 } };
}

async function round(name: string, { service, target, postgres_pid }: Version, callers: number): Promise<Round> {
  const used = () => [processorMs(service.pid), postgres_pid === null ? 0 : processorMsBelow(postgres_pid)] as const;
  const before = used();
  const measure = await checked(name, closedLoop(target, { callers, seconds }));
  const after = used();
  const [service_ms, postgres_ms] = [0, 1].map((nth) => ((after[nth] ?? 0) - (before[nth] ?? 0)) / measure.answers);
  return { ...measure, service_ms: service_ms ?? 0, postgres_ms: postgres_ms ?? 0 };
}

async function compare(versions: ReadonlyMap<string, Version>, callers: number): Promise<void> {
  const found = await inTurn(
    new Map([...versions].map(([name, version]) => [name, () => round(name, version, callers)])),
    rounds,
  );
  const [now, base] = [found.get(NOW) ?? [], found.get(BASE) ?? []];
  const figures: [string, (round: Round) => number][] = [
    ["per second", (round) => round.per_second],
    ["p50, ms", (round) => round.p50_ms],
    ["processor of the service, ms each", (round) => round.service_ms],
    ["processor of PostgreSQL, ms each", (round) => round.postgres_ms],
  ];
  const ratio = (pick: (round: Round) => number) => pairedRatio(now, base, pick);
  printOutcome({
    name: `versions-${options.load}-${options.embedded ? "embedded" : "postgres"}-${callers}`,
    title: `${options.load}, ${options.embedded ? "embedded" : "PostgreSQL"}, ${callers} callers, ${rounds} rounds`,
    tables: [
      {
        caption: "Medians; the last row is the median of the rounds' ratios",
        columns: figures.map(([name]) => name),
        rows: [
          ...[...found].map(([name, all]) => ({ name, values: figures.map(([, pick]) => medianOf(all, pick)) })),
          { name: `${NOW} / ${BASE}`, values: figures.map(([, pick]) => ratio(pick)) },
        ],
      },
    ],
    ratios: [],
  });
}

try {
  const model = options.load === "runs" ? await startInstantModel() : null;
  const upstream = model ?? (await startServer([process.execPath, UPSTREAM], { core: "load" }));
  started.push({ stop: () => ("close" in upstream ? upstream.close() : upstream.stop()) });
  const roots = { [NOW]: join(import.meta.dirname, ".."), [BASE]: resolve(options.base) };
  const versions = new Map<string, Version>();
  for (const [name, root] of Object.entries(roots)) versions.set(name, await startVersion(root, name, upstream.url));
  await onLoadCore(async () => {
    for (const [name, version] of versions) await checked(name, closedLoop(version.target, WARM_UP));
    for (const callers of options.callers.split(",").map(Number)) await compare(versions, callers);
  });
} finally {
  for (const each of started.toReversed()) await each.stop();
}
