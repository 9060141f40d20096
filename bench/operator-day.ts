import { randomInt } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { runSql, startPostgres } from "../test/support/postgres-server.ts";
import { mountSmall, type SmallDisk } from "../test/support/small-disk.ts";
import { startSlowUpstream } from "./crash/upstream.ts";
import { missingProgram, startCluster } from "./outages/cluster.ts";
import { makeNextVersion } from "./outages/next-version.ts";
import { type Day, type Nodes, type Phase, printPhases, startDay } from "./outages/phases.ts";
import { openGate, type Supervised, supervise } from "./outages/supervisor.ts";
import { configure, createFolderPlace, type Place, startService } from "./support/service.ts";
import { seededRandom } from "./support/statistics.ts";

// `npm run operator-day -- [--seed n] [--only upgrade,disk,embedded,failover]`: the failures of docs/operating/bad-day.md, one
// after the other, under load on two nodes. Exits with 1 if anything that was acknowledged is missing. Needs root for
// its small disks, and Debian's postgresql, patroni, etcd-server, haproxy and faketime.

const FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
const AWAY_MS = 60_000;
const FULL_MS = 15_000;
const LOAD = { users: 3, per_user: 2 };

const { values: options } = parseArgs({ options: { seed: { type: "string" }, only: { type: "string" } } });
const seed = Number(options.seed ?? randomInt(2 ** 31));
const random = seededRandom(seed);
console.error(`seed ${seed}`);

const PARTS: Record<string, (model_url: string) => Promise<Phase[]>> = {
  upgrade: onPostgres,
  disk: onFullDisk,
  embedded: onEmbedded,
  failover: onCluster,
};
const wanted = options.only?.split(",") ?? Object.keys(PARTS);
const missing = missingIn(wanted);
if (missing !== null)
  throw new Error(`${missing} is not installed. Debian: apt-get install patroni etcd-server haproxy faketime`);
const upstream = await startSlowUpstream();
const phases: Phase[] = [];
try {
  for (const name of wanted) phases.push(...((await PARTS[name]?.(upstream.url)) ?? []));
} finally {
  await upstream.close();
  printPhases(`An operator's bad day, seed ${seed}`, phases);
}

/** A program without which one of these parts cannot run, or null. */
function missingIn(parts: readonly string[]): string | null {
  if (parts.includes("upgrade") && !existsSync(FAKETIME)) return "faketime";
  return parts.includes("failover") ? missingProgram() : null;
}

function prepared(place: Place, model_url: string): Place {
  configure(place, model_url);
  place.env.PURSER_PAYMENTS = "sandbox";
  return place;
}

function smallDisk(megabytes: number): SmallDisk {
  const disk = mountSmall(megabytes);
  if (disk === null) throw new Error("no disk: run this as root, so that it can mount a tmpfs");
  return disk;
}

/** The disk is full for a while: writers get 503, and space is enough for the service to go on. */
async function fillAndFree(day: Day, disk: SmallDisk): Promise<void> {
  await day.load.untilAnswered(10);
  disk.fill(0);
  await setTimeout(FULL_MS);
  disk.free();
}

/** Two nodes on one server: an upgrade, a killed node, a wrong clock, the database away. */
async function onPostgres(model_url: string): Promise<Phase[]> {
  const next = makeNextVersion();
  const server = await startPostgres();
  await runSql(server.url("postgres"), "create database purser");
  const gate = await openGate(Number(new URL(server.url("purser")).port));
  const place = prepared(createFolderPlace(`postgres://purser@127.0.0.1:${gate.port}/purser`), model_url);
  const nodes: Nodes = new Map();
  const started: Supervised[] = [];
  const before = () => startService(place);
  const present = (env: Record<string, string> = {}) =>
    startService({ ...place, env: { ...place.env, ...env } }, { main: next.main });
  try {
    const one = await supervise(nodes, "one", before);
    started.push(one);
    const two = await supervise(nodes, "two", before);
    started.push(two);
    const day = await startDay(nodes, { ...LOAD, random });
    await day.phase("rolling upgrade to a version with one more migration", async () => {
      await day.load.untilAnswered(30);
      await one.replace(() => present());
      await day.load.untilAnswered(30);
      await two.replace(() => present());
    });
    await day.phase("a node is killed", async () => {
      await day.load.untilAnswered(10);
      await two.kill();
    });
    await day.phase("a node's clock is an hour ahead", () => wrongClock(nodes, two, present));
    await day.phase("the database is away for a minute", async () => {
      await day.load.untilAnswered(10);
      await gate.close();
      await setTimeout(AWAY_MS);
      await gate.open();
    });
    await day.finish(place);
    return day.phases;
  } finally {
    for (const node of started) await node.stop();
    await gate.close();
    await server.stop();
    await place.drop();
    next.remove();
  }
}

/** The disk with PostgreSQL's tables is full. The write-ahead log has its own, because a server without it stops. */
async function onFullDisk(model_url: string): Promise<Phase[]> {
  const disk = smallDisk(300);
  const folder = join(disk.folder, "server");
  mkdirSync(folder);
  const wal_folder = mkdtempSync(join(tmpdir(), "purser-wal-"));
  const server = await startPostgres({ folder, wal_folder });
  await runSql(server.url("postgres"), "create database purser");
  const place = prepared(createFolderPlace(server.url("purser")), model_url);
  const nodes: Nodes = new Map();
  const started: Supervised[] = [];
  try {
    for (const name of ["one", "two"]) started.push(await supervise(nodes, name, () => startService(place)));
    const day = await startDay(nodes, { ...LOAD, random });
    await day.phase("the disk of PostgreSQL is full, then freed", () => fillAndFree(day, disk));
    await day.finish(place);
    return day.phases.map((phase) => ({ ...phase, name: phase.name.replace(/^every/, "disk: every") }));
  } finally {
    for (const node of started) await node.stop();
    await place.drop();
    await server.stop();
    disk.remove();
    rmSync(wal_folder, { recursive: true, force: true });
  }
}

/** The node says that it is not ready, so a load balancer sends it nothing. */
async function wrongClock(
  nodes: Nodes,
  two: Supervised,
  present: (env?: Record<string, string>) => ReturnType<typeof startService>,
): Promise<void> {
  const fake = {
    LD_PRELOAD: FAKETIME,
    FAKETIME: "+3600s",
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
    DONT_FAKE_MONOTONIC: "1",
  };
  await two.replace(() => present(fake));
  const node = nodes.get("two");
  nodes.delete("two");
  const ready = await fetch(`${node?.url}/readyz`);
  const text = await ready.text();
  if (ready.status !== 503 || !text.includes("clock_skew")) throw new Error(`/readyz: ${ready.status} ${text}`);
  await setTimeout(5_000);
  await two.replace(() => present());
}

/** Embedded storage: the process is killed, and its disk is full. */
async function onEmbedded(model_url: string): Promise<Phase[]> {
  const disk = smallDisk(400);
  const place = prepared(createFolderPlace(null), model_url);
  place.env.DATA_DIR = disk.folder;
  const nodes: Nodes = new Map();
  const started: Supervised[] = [];
  try {
    const node = await supervise(nodes, "embedded", () => startService(place));
    started.push(node);
    const day = await startDay(nodes, { ...LOAD, random });
    await day.phase("embedded: the process is killed", async () => {
      await day.load.untilAnswered(20);
      await node.kill();
    });
    await day.phase("embedded: the disk is full, then freed", () => fillAndFree(day, disk));
    await day.finish(place);
    return day.phases.map((phase) => ({ ...phase, name: phase.name.replace(/^every/, "embedded: every") }));
  } finally {
    for (const each of started) await each.stop();
    await place.drop();
    disk.remove();
  }
}

/** The primary of a cluster is killed, then its whole machine. */
async function onCluster(model_url: string): Promise<Phase[]> {
  const cluster = await startCluster();
  await runSql(cluster.url("postgres"), "create database purser");
  const place = prepared(createFolderPlace(cluster.url("purser")), model_url);
  const nodes: Nodes = new Map();
  const started: Supervised[] = [];
  try {
    for (const name of ["one", "two"]) started.push(await supervise(nodes, name, () => startService(place)));
    const day = await startDay(nodes, { ...LOAD, random });
    for (const machine of [false, true]) {
      await day.phase(machine ? "the machine of the primary is lost" : "the primary is killed", async () => {
        await day.load.untilAnswered(10);
        await cluster.killPrimary({ machine });
        await day.load.untilAnswered(20);
      });
    }
    await cluster.untilSynchronous();
    await day.finish(place);
    return day.phases.map((phase) => ({ ...phase, name: phase.name.replace(/^every/, "cluster: every") }));
  } finally {
    for (const node of started) await node.stop();
    await place.drop();
    await cluster.stop();
  }
}
