import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

// `npm run install-check`: installs Purser in each way as a new user would, in clean folders and a clean Debian, and
// prints a table of seconds and megabytes. Each installation starts, signs a person up, answers a completion, executes an
// agent's run, serves the console, makes a backup, and is upgraded to the next version with its data. Exits with 1 if one
// fails. --tarball names a package to install in place of this clone's, --next the one to upgrade to: so a released
// version is upgraded to this clone's.

const { values: options } = parseArgs({
  options: {
    only: { type: "string", default: "npx,image,compose,deb,helm,clone,old-node" },
    tarball: { type: "string" },
    next: { type: "string" },
  },
});
const root = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "purser-install-"));
const ADMIN_KEY = randomBytes(24).toString("hex");
const PASSWORD = "correct horse battery";
/** A busy machine takes its time; a hanging one must end. */
const START_MS = 180_000;
const COMMAND_MS = 600_000;

interface Called {
  command: readonly string[];
  cwd?: string;
  env: Record<string, string>;
}

/** One way to install. */
interface Way {
  install(): void;
  upgrade(): void;
  /** The folders that it filled. */
  folders: readonly string[];
  /** `purser` with these arguments. */
  purser(...args: readonly string[]): Called;
  /** A backup's path in the installation, and on this machine. */
  backup: { inside: string; outside: string };
}

/** Only this machine's tools and the wanted Node, as on a machine that has no clone. */
function pathWith(node: string | null): string {
  const bin = join(folder, `bin-${node === null ? "none" : "node"}`);
  if (!existsSync(bin)) {
    mkdirSync(bin);
    if (node !== null) symlinkSync(node, join(bin, "node"));
  }
  return `${bin}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin`;
}

/** How this machine reaches the registry. */
const network: Record<string, string> = Object.fromEntries(
  Object.entries(process.env).flatMap(([name, value]) =>
    value !== undefined &&
    /^(npm_config_(registry|cafile|userconfig)|https?_proxy|no_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE)$/i.test(name)
      ? [[name, value]]
      : [],
  ),
);

function run({ command: [program = "", ...args], cwd, env }: Called): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd: cwd ?? folder,
    env,
    encoding: "utf8",
    timeout: COMMAND_MS,
  });
  if (status !== 0)
    throw new Error(
      `${program} ${args.join(" ")}: ${error?.message ?? status}\n${stdout.slice(-2000)}${stderr.slice(-2000)}`,
    );
  return stdout;
}

const here = (...command: readonly string[]) => run({ command, cwd: root, env: process.env as Record<string, string> });
const megabytes = (folders: readonly string[]) =>
  folders.reduce(
    (sum, each) => sum + Number(execFileSync("du", ["-sm", each], { encoding: "utf8" }).split("\t")[0]),
    0,
  );

function versionAfter(version: string): string {
  const [major, minor, patch] = version.split(".").map(Number);
  return `${major}.${minor}.${Number(patch) + 1}`;
}

/** The same package with the next version, as the next commit's would be. */
function nextVersion(tarball: string): string {
  const unpacked = join(folder, "next");
  mkdirSync(unpacked);
  here("tar", "-xzf", tarball, "-C", unpacked);
  const file = join(unpacked, "package/package.json");
  const manifest = JSON.parse(readFileSync(file, "utf8"));
  manifest.version = versionAfter(manifest.version);
  writeFileSync(file, JSON.stringify(manifest, null, 2));
  const next = join(folder, `purser-${manifest.version}.tgz`);
  here("tar", "-czf", next, "-C", unpacked, "package");
  return next;
}

let debian: string | undefined;
/** A minimal Debian, made once. */
function newDebian(name: string): string {
  debian ??= join(folder, "debian.tar");
  if (!existsSync(debian))
    here("mmdebstrap", "--variant=minbase", "--include=ca-certificates,libatomic1", "bookworm", debian);
  const place = join(folder, name);
  mkdirSync(place);
  here("tar", "-xf", debian, "-C", place, "--exclude=./dev/*");
  return place;
}

/** Mounts what a container has: a read-only root, a folder for data, /tmp and no rights of root. */
const ENTER = `set -eu
root=$1; data=$2; shift 2
mount --bind "$root" "$root"
mount --bind "$root$data" "$root$data"
mount -t tmpfs tmpfs "$root/tmp" && chmod 1777 "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -o remount,bind,ro "$root"
! chroot "$root" sh -c 'echo x > /usr/x' 2>/dev/null || { echo "the root is not read-only"; exit 1; }
exec chroot --userspec=10001:10001 "$root" "$@"`;

function inDebian(place: string, data: string, command: readonly string[], env: Record<string, string>): Called {
  return {
    command: ["unshare", "--mount", "sh", "-c", ENTER, "enter", place, data, ...command],
    env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", ...env },
  };
}

function ways(tarball: string, next: string, node: string): Record<string, () => Way> {
  const npx = (): Way => {
    const home = join(folder, "npx");
    mkdirSync(home);
    let installed = tarball;
    return {
      // npx installs with its first call.
      install: () => {},
      upgrade: () => {
        installed = next;
      },
      folders: [join(home, ".npm/_npx")],
      purser: (...args) => ({
        command: ["npx", "--yes", `--package=${installed}`, "purser", ...args],
        cwd: home,
        env: { ...network, PATH: pathWith(node), HOME: home },
      }),
      backup: { inside: join(home, "backup.gz"), outside: join(home, "backup.gz") },
    };
  };
  const deb = (): Way => {
    const place = newDebian("deb");
    const data = "/var/lib/purser";
    const make = (of: string) => here("sh", "deploy/deb.sh", of, folder).trim();
    const install = (of: string) => {
      cpSync(make(of), join(place, "tmp/purser.deb"));
      here("chroot", place, "/usr/bin/dpkg", "-i", "/tmp/purser.deb");
    };
    return {
      install: () => {
        install(tarball);
        // What systemd makes for the unit.
        here("install", "-d", "-o", "10001", "-g", "10001", "-m", "0700", join(place, data));
        if ((statSync(join(place, "etc/purser/env")).mode & 0o777) !== 0o600)
          throw new Error("/etc/purser/env is readable");
      },
      upgrade: () => install(next),
      folders: [join(place, "usr/lib/purser")],
      purser: (...args) =>
        inDebian(place, data, ["/usr/bin/purser", ...args], { DATA_DIR: data, NODE_COMPILE_CACHE: "/tmp/purser" }),
      backup: { inside: `${data}/backup.gz`, outside: join(place, data, "backup.gz") },
    };
  };
  /** What deploy/Dockerfile makes, without a registry: Node in /usr/local, the package by npm in /opt/purser. */
  const image = (): Way => {
    const place = newDebian("image");
    const install = (of: string) => {
      const prefix = join(place, "opt/purser");
      run({
        command: ["npm", "install", "--global", "--prefix", prefix, "--ignore-scripts", "--silent", of],
        env: { ...network, PATH: pathWith(node), HOME: folder },
      });
    };
    return {
      install: () => {
        cpSync(node, join(place, "usr/local/bin/node"));
        here("install", "-d", "-o", "10001", "-g", "10001", "-m", "0700", join(place, "data"));
        install(tarball);
      },
      upgrade: () => install(next),
      folders: [join(place, "opt/purser"), join(place, "usr/local/bin/node")],
      purser: (...args) =>
        inDebian(place, "/data", ["/opt/purser/bin/purser", ...args], {
          PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
          DATA_DIR: "/data",
          NODE_COMPILE_CACHE: "/tmp/purser",
        }),
      backup: { inside: "/data/backup.gz", outside: join(place, "data/backup.gz") },
    };
  };
  const clone = (): Way => {
    const origin = join(folder, "origin");
    const place = join(folder, "clone");
    const git = (at: string, ...args: string[]) =>
      here("git", "-C", at, "-c", "user.name=x", "-c", "user.email=x@example.com", ...args);
    // The machine's own Node: npm ci brings another one where it is too old.
    const env = { ...network, PATH: pathWith(null), HOME: process.env.HOME ?? folder };
    const install = () => run({ command: ["npm", "ci", "--silent"], cwd: place, env });
    return {
      install: () => {
        here("git", "clone", "--quiet", "--depth", "1", `file://${root}`, origin);
        here("git", "clone", "--quiet", origin, place);
        install();
      },
      upgrade: () => {
        const file = join(origin, "package.json");
        const bumped = readFileSync(file, "utf8").replace(
          /("version": ")([^"]+)/,
          (_, before: string, version: string) => before + versionAfter(version),
        );
        writeFileSync(file, bumped);
        git(origin, "commit", "--quiet", "--all", "--message", "the next commit");
        git(place, "pull", "--quiet");
        install();
      },
      folders: [place],
      purser: (...args) => ({
        command: args[0] === "start" ? ["npm", "start", "--silent"] : ["npx", "purser", ...args],
        cwd: place,
        env,
      }),
      backup: { inside: join(place, "backup.gz"), outside: join(place, "backup.gz") },
    };
  };
  return { npx, deb, image, clone };
}

interface Started {
  url: string;
  stop(): Promise<void>;
}

async function start(way: Way, port: number): Promise<Started> {
  const { command, cwd, env } = way.purser("start");
  const [program = "", ...args] = command;
  const child: ChildProcess = spawn(program, args, {
    cwd: cwd ?? folder,
    env: { ...env, PORT: String(port), PURSER_ADMIN_KEY: ADMIN_KEY, LOG_LEVEL: "warn" },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (bytes) => (output += bytes));
  const ended = once(child, "exit");
  const url = `http://127.0.0.1:${port}`;
  const isServing = () =>
    fetch(`${url}/livez`).then(
      () => true,
      () => false,
    );
  const until = performance.now() + START_MS;
  while (
    !(await fetch(`${url}/readyz`).then(
      (answer) => answer.ok,
      () => false,
    ))
  ) {
    if (child.exitCode !== null || performance.now() > until)
      throw new Error(`it did not start: ${output.slice(-2000)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return {
    url,
    async stop() {
      child.kill("SIGTERM");
      const [code, signal] = await ended;
      // npm ends by the signal, and the service after it.
      if (code !== 0 && signal !== "SIGTERM") throw new Error(`it ended with ${code}: ${output.slice(-2000)}`);
      while (await isServing()) await new Promise((resolve) => setTimeout(resolve, 20));
    },
  };
}

async function ask(url: string, init: { headers?: Record<string, string>; body?: unknown; method?: string } = {}) {
  const { body, headers } = init;
  const answer = await fetch(url, {
    method: init.method ?? (body === undefined ? "GET" : "POST"),
    headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
    body: body === undefined ? null : JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${text.slice(0, 500)}`);
  return { text, headers: answer.headers };
}

function expectThat(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

type Seconds = Record<string, string>;
const STEPS = [
  ...["start", "sign-up", "first completion", "agent run", "console loads"],
  ...["backup", "second start", "upgrade"],
];

async function tryWay(name: string, way: Way, port: number): Promise<Seconds> {
  const seconds: Seconds = {};
  const began = performance.now();
  const timed = async <T>(step: string, work: () => T | Promise<T>): Promise<T> => {
    const from = performance.now();
    const value = await work();
    seconds[step] = ((performance.now() - from) / 1000).toFixed(1);
    process.stderr.write(`${name}: ${step} ${seconds[step]} s\n`);
    return value;
  };
  await timed("install", () => way.install());
  let service = await timed("start", () => start(way, port));
  const site = service.url;
  const api = `${site}/api/v1`;
  const key = await timed("sign-up", async () => {
    const email = "ada@example.com";
    const { headers } = await ask(`${api}/auth/sign-up/email`, {
      headers: { Origin: site },
      body: { email, password: PASSWORD },
    });
    const cookie = headers
      .getSetCookie()
      .map((each) => each.split(";")[0])
      .join("; ");
    const made = await ask(`${api}/api-keys`, { headers: { Origin: site, Cookie: cookie }, body: { name: "first" } });
    return JSON.parse(made.text).key as string;
  });
  const headers = { Authorization: `Bearer ${key}` };
  await timed("first completion", async () => {
    const messages = [{ role: "user", content: "Say hello" }];
    const { text } = await ask(`${api}/chat/completions`, { headers, body: { model: "auto", messages } });
    expectThat(JSON.parse(text).usage.cost_tokens > 0, `no cost in ${text}`);
  });
  const agent = await timed("agent run", async () => {
    const body = { name: "Greeter", model_id: "purser/rehearsal", run_prompt: "Say good morning" };
    const { id } = JSON.parse((await ask(`${api}/agents`, { headers, body })).text);
    const { text } = await ask(`${api}/agents/${id}/runs`, {
      headers: { ...headers, Prefer: "wait=60" },
      method: "POST",
    });
    expectThat(JSON.parse(text).status === "succeeded", `the run: ${text}`);
    return id as string;
  });
  await timed("console loads", async () => {
    const page = (await ask(`${site}/`, { headers: { Accept: "text/html" } })).text;
    const files = [...page.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, file]) => file);
    expectThat(
      files.some((file) => file?.endsWith(".js")),
      `no program in ${page}`,
    );
    for (const file of files) await ask(`${site}${file}`);
  });
  await timed("backup", () => {
    const command = way.purser("backup", way.backup.inside, "--url", site);
    run({ ...command, env: { ...command.env, PURSER_ADMIN_KEY: ADMIN_KEY } });
    expectThat(statSync(way.backup.outside).size > 1000, "the backup is empty");
  });
  seconds.MB = String(megabytes(way.folders));
  const balance = async () => JSON.parse((await ask(`${api}/users/me`, { headers })).text).balance.available as number;
  const before = await balance();
  await service.stop();
  const first_version = run(way.purser("--version")).trim();
  service = await timed("second start", () => start(way, port));
  await service.stop();
  await timed("upgrade", async () => {
    way.upgrade();
    service = await start(way, port);
    expectThat((await balance()) === before, "the balance changed");
    await ask(`${api}/agents/${agent}`, { headers });
    await service.stop();
  });
  const version = run(way.purser("--version")).trim();
  expectThat(version !== first_version, `it is still ${version}`);
  seconds.minutes = ((performance.now() - began) / 60_000).toFixed(1);
  return seconds;
}

/** Compose and Helm run the image in Docker or a cluster, which are not here: only their files are checked. */
function tryFiles(
  file: string,
  { tool, checked, missing }: { tool: string; checked: string; missing: string },
): Seconds {
  if (spawnSync(tool, ["version"]).error !== undefined) return { install: `not checked: ${tool} is not installed` };
  const from = performance.now();
  run({
    command: [process.execPath, "test/run.ts", file, "--project=tidy"],
    cwd: root,
    env: process.env as Record<string, string>,
  });
  const minutes = ((performance.now() - from) / 60_000).toFixed(1);
  return { ...Object.fromEntries(STEPS.map((step) => [step, missing])), install: checked, minutes };
}

/** A Node that is too old says so, in a sentence. */
function tryOldNode(tarball: string): Seconds {
  const env = { PATH: pathWith(null), HOME: folder };
  const version = run({ command: ["node", "--version"], env }).trim();
  if (Number(/\d+/.exec(version)?.[0]) >= 26) return { install: `not tried: this machine's Node is ${version}` };
  const unpacked = join(folder, "old");
  mkdirSync(unpacked);
  here("tar", "-xzf", tarball, "-C", unpacked);
  const { status, stderr } = spawnSync("node", [join(unpacked, "package/bin/purser"), "audit"], {
    env,
    encoding: "utf8",
  });
  expectThat(
    status === 2 && /^Purser needs Node 26 or newer, and this is Node [\d.]+: [^\n]+\n$/.test(stderr),
    `${status}: ${stderr}`,
  );
  return { install: `${version}: one sentence` };
}

const node = realpathSync(join(root, "node_modules/.bin/node"));
const pack = () =>
  join(folder, here("npm", "pack", "--silent", "--pack-destination", folder).trim().split("\n").at(-1) ?? "");
const from = performance.now();
const tarball = options.tarball ?? pack();
process.stderr.write(
  `npm pack: ${((performance.now() - from) / 1000).toFixed(0)} s, ${(statSync(tarball).size / 1e6).toFixed(1)} MB\n`,
);
const installations = ways(tarball, options.next ?? nextVersion(tarball), node);
const NAMES: Record<string, string> = {
  npx: "npx of the packed tarball",
  image: "the image's files in a Debian root",
  deb: "Debian package in a chroot",
  helm: "helm render",
};
const others: Record<string, () => Seconds> = {
  compose: () =>
    tryFiles("test/unit/docs/deploy.test.ts", {
      tool: "docker-compose",
      checked: "config valid",
      missing: "no Docker; see image",
    }),
  helm: () =>
    tryFiles("test/unit/docs/helm.test.ts", {
      tool: "go",
      checked: "rendered, and checked against Kubernetes' schema",
      missing: "no cluster; see image",
    }),
  "old-node": () => tryOldNode(tarball),
};
const columns = ["install", ...STEPS, "minutes", "MB"];
const rows: string[] = [];
let failed = 0;
const names = options.only.split(",");
for (const [index, name] of names.entries()) {
  try {
    const make = installations[name];
    const seconds = make === undefined ? others[name]?.() : await tryWay(name, make(), 3_950 + index);
    if (seconds === undefined) throw new Error("no such way");
    rows.push(`| ${[NAMES[name] ?? name, ...columns.map((column) => seconds[column] ?? "")].join(" | ")} |`);
  } catch (error) {
    failed += 1;
    rows.push(`| ${name} | failed: ${(error as Error).message.split("\n")[0]} |`);
    process.stderr.write(`${name}: ${(error as Error).message}\n`);
  }
}
rmSync(folder, { recursive: true, force: true });
process.stdout.write(
  `| way | ${columns.join(" | ")} |\n|---|${"--:|".repeat(columns.length)}\n${rows.join("\n")}\n\n${names.length - failed} passed, ${failed} failed\n`,
);
process.exit(failed === 0 ? 0 : 1);
