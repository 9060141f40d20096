import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { postgresBinaries, runSql } from "../../test/support/postgres-server.ts";
import { freePort } from "../support/free-port.ts";
import { endWithProcess } from "../support/processes.ts";

/** Debian's packages: patroni, etcd-server, haproxy, postgresql. */
const PROGRAMS = ["patroni", "etcd", "haproxy"];
const MEMBERS = ["one", "two"] as const;
type Member = (typeof MEMBERS)[number];
const READY_MS = 180_000;
const POLL_MS = 200;
/** A lost machine comes back after this time at the latest. */
const MACHINE_MS = 60_000;

/** PostgreSQL with a synchronous standby under Patroni, behind HAProxy, on loopback. */
export interface Cluster {
  /** Through HAProxy: always the primary. */
  url(database: string): string;
  /** Resolves to the primary once a standby confirms each commit. */
  untilSynchronous(): Promise<Member>;
  /** kill -9 of the primary's server, and with `machine` also of its Patroni, which is started again later. */
  killPrimary(options: { machine: boolean }): Promise<Member>;
  /** The last lines of the logs of Patroni, etcd and HAProxy. */
  tails(): string;
  stop(): Promise<void>;
}

interface Running {
  folder: string;
  port: number;
  api_port: number;
  patroni: ChildProcess;
}

/** The name of the first program that is not installed; null: the cluster can be started. */
export function missingProgram(): string | null {
  const isMissing = (name: string) => {
    try {
      execFileSync("which", [name], { stdio: "ignore" });
      return false;
    } catch {
      return true;
    }
  };
  return PROGRAMS.find(isMissing) ?? (postgresBinaries() === null ? "postgresql" : null);
}

/** Runs everything as the user postgres in a temporary folder, and ends only its own processes. */
export async function startCluster(): Promise<Cluster> {
  const id = (flag: string) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
  const user = process.getuid?.() === 0 ? { uid: id("-u"), gid: id("-g") } : {};
  const folder = mkdtempSync(join(tmpdir(), "purser-cluster-"));
  const own = (path: string) => {
    if (user.uid !== undefined) chownSync(path, user.uid, user.gid);
    return path;
  };
  own(folder);
  const children: ChildProcess[] = [];
  const run = (name: string, args: readonly string[]) => {
    const output = openSync(join(folder, `${name}.log`), "a");
    const [program = ""] = name.split("-");
    const child = spawn(program, args, { ...user, cwd: folder, stdio: ["ignore", output, output] });
    children.push(child);
    endWithProcess(child);
    return child;
  };
  const [etcd_port, peer_port, proxy_port] = [await freePort(), await freePort(), await freePort()];
  run("etcd", etcdArguments(folder, etcd_port, peer_port));

  const members = new Map<Member, Running>();
  const startPatroni = (name: Member) => run(`patroni-${name}`, [join(folder, `${name}.yml`)]);
  for (const name of MEMBERS) {
    const member = { folder: own(mkdirIn(folder, name)), port: await freePort(), api_port: await freePort() };
    writeFileSync(join(folder, `${name}.yml`), patroniSettings(name, { ...member, etcd_port }));
    members.set(name, { ...member, patroni: startPatroni(name) });
  }
  writeFileSync(join(folder, "haproxy.cfg"), proxySettings(proxy_port, members));
  run("haproxy", ["-db", "-f", join(folder, "haproxy.cfg")]);

  const url = (database: string) => `postgres://purser@127.0.0.1:${proxy_port}/${database}`;
  const untilSynchronous = async () => {
    const deadline_ms = performance.now() + READY_MS;
    for (;;) {
      const primary = await primaryOf(members);
      if (primary !== null && (await hasSynchronous(members)) && (await isSynchronous(url("postgres")))) return primary;
      if (performance.now() > deadline_ms) throw new Error(`the cluster is not synchronous: see ${folder}`);
      await setTimeout(POLL_MS);
    }
  };
  // Patroni's servers are no children of this process.
  const killServers = () => {
    for (const member of members.values()) kill(postmasterOf(member), "SIGQUIT");
  };
  process.once("exit", killServers);
  let is_stopped = false;
  const stop = async () => {
    is_stopped = true;
    for (const child of children.toReversed()) child.kill("SIGTERM");
    const ended = children.map(
      (child) => (child.exitCode ?? child.signalCode) !== null || new Promise((resolve) => child.once("exit", resolve)),
    );
    await Promise.race([Promise.all(ended), setTimeout(20_000, null, { ref: false })]);
    for (const child of children) child.kill("SIGKILL");
    killServers();
    rmSync(folder, { recursive: true, force: true });
  };
  const tails = () => {
    const names = [...MEMBERS.map((name) => `patroni-${name}`), "etcd", "haproxy"];
    return execFileSync("tail", ["-n", "25", ...names.map((name) => join(folder, `${name}.log`))], {
      encoding: "utf8",
    });
  };
  await untilSynchronous().catch(async (error: Error) => {
    const tail = tails();
    await stop();
    throw new Error(`${error.message}\n${tail}`);
  });
  return {
    url,
    untilSynchronous,
    async killPrimary({ machine }) {
      const name = await untilSynchronous();
      const member = members.get(name) as Running;
      if (machine) member.patroni.kill("SIGKILL");
      kill(postmasterOf(member), "SIGKILL");
      if (machine) void restartLater(name, member);
      return name;
    },
    tails,
    stop,
  };

  /** The machine comes back once the other one is the primary. */
  async function restartLater(name: Member, member: Running) {
    const deadline_ms = performance.now() + MACHINE_MS;
    while ([name, null].includes((await primaryOf(members)) as Member) && performance.now() < deadline_ms)
      await setTimeout(POLL_MS);
    if (!is_stopped) member.patroni = startPatroni(name);
  }
}

function mkdirIn(folder: string, name: string): string {
  const path = join(folder, name);
  mkdirSync(path, { mode: 0o700 });
  return path;
}

function kill(pid: number | null, signal: NodeJS.Signals): void {
  if (pid === null) return;
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended.
  }
}

/**
 * The process id of a member's server, from the file that it wrote. Null for an empty file: a kill of the process 0 would
 * end this process and its group.
 */
function postmasterOf({ folder }: Pick<Running, "folder">): number | null {
  try {
    const pid = Number(readFileSync(join(folder, "data/postmaster.pid"), "utf8").split("\n", 1)[0]);
    return pid > 0 ? pid : null;
  } catch {
    return null;
  }
}

/** The member whose Patroni answers 200 at `path`. */
async function memberAt(path: string, members: ReadonlyMap<Member, Running>): Promise<Member | null> {
  for (const [name, { api_port }] of members) {
    const signal = AbortSignal.timeout(2_000);
    const answer = await fetch(`http://127.0.0.1:${api_port}${path}`, { signal }).catch(() => null);
    await answer?.body?.cancel();
    if (answer?.status === 200) return name;
  }
  return null;
}

function primaryOf(members: ReadonlyMap<Member, Running>): Promise<Member | null> {
  return memberAt("/primary", members);
}

/** Patroni promotes only a standby that etcd names as synchronous, which it does some time after the server. */
async function hasSynchronous(members: ReadonlyMap<Member, Running>): Promise<boolean> {
  return (await memberAt("/sync", members)) !== null;
}

async function isSynchronous(url: string): Promise<boolean> {
  const rows = await runSql(url, "select 1 from pg_stat_replication where sync_state in ('sync', 'quorum')").catch(
    () => [],
  );
  return rows.length > 0;
}

function etcdArguments(folder: string, port: number, peer_port: number): string[] {
  const [client, peer] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peer_port}`];
  return [
    ...["--name", "etcd", "--data-dir", join(folder, "etcd")],
    ...["--listen-client-urls", client, "--advertise-client-urls", client],
    ...["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", `etcd=${peer}`],
  ];
}

/** The shortest times that Patroni allows. `primary_start_timeout` 0: a crashed primary is replaced, not restarted. */
function patroniSettings(
  name: Member,
  { folder, port, api_port, etcd_port }: { folder: string; port: number; api_port: number; etcd_port: number },
): string {
  const address = (of: number) => `127.0.0.1:${of}`;
  return JSON.stringify({
    scope: "purser",
    name,
    restapi: { listen: address(api_port), connect_address: address(api_port) },
    etcd3: { host: address(etcd_port) },
    bootstrap: {
      dcs: {
        ttl: 20,
        loop_wait: 1,
        retry_timeout: 3,
        maximum_lag_on_failover: 1_048_576,
        synchronous_mode: true,
        primary_start_timeout: 0,
        master_start_timeout: 0,
        postgresql: {
          use_pg_rewind: true,
          parameters: { max_connections: 200, wal_log_hints: "on", wal_keep_size: "256MB" },
        },
      },
      initdb: [{ encoding: "UTF8" }, { locale: "C" }, "data-checksums"],
      pg_hba: ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
    },
    postgresql: {
      listen: address(port),
      connect_address: address(port),
      data_dir: join(folder, "data"),
      bin_dir: postgresBinaries(),
      pgpass: join(folder, "pgpass"),
      authentication: {
        superuser: { username: "purser", password: "purser" },
        replication: { username: "replicator", password: "replicator" },
        rewind: { username: "rewind", password: "rewind" },
      },
      parameters: { unix_socket_directories: folder },
      remove_data_directory_on_rewind_failure: true,
      remove_data_directory_on_diverged_timelines: true,
    },
  });
}

function proxySettings(port: number, members: ReadonlyMap<Member, Running>): string {
  const servers = [...members].map(
    ([name, member]) => `  server ${name} 127.0.0.1:${member.port} maxconn 200 check port ${member.api_port}`,
  );
  return `global
  maxconn 1000
defaults
  mode tcp
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  timeout check 2s
listen purser
  bind 127.0.0.1:${port}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
${servers.join("\n")}
`;
}
