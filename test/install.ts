import { type ChildProcess, spawn, spawnSync } from "node:child_process";
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
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { createContainers } from "./support/containers.ts";

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
  start(port: number): Running;
  megabytes(): number;
  /** The output of `purser` with these arguments, while the service runs. */
  purser(...args: readonly string[]): string;
  /** The arguments of `purser backup`, of a service at this address. */
  backup(site: string): readonly string[];
  remove?(): void;
}

interface Running {
  log(): string;
  hasEnded?(): boolean;
  stop(): Promise<void>;
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
const megabytesOf = (place: string) => Number(here("du", "-sm", place).split("\t")[0]);

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

const node = realpathSync(join(root, "node_modules/.bin/node"));
const CHECK_HEALTH = `while :; do
  podman ps --quiet --filter label=com.docker.compose.project=$0 | xargs --no-run-if-empty -n 1 podman healthcheck run
  sleep 1
done`;
const containers = createContainers({ folder, node });

/** The image of a package, built once. Without --tarball, the Dockerfile packs the clone's by itself. */
const images = new Map<string, string>();
function imageOf(tarball: string): string {
  const known = images.get(tarball);
  if (known !== undefined) return known;
  const name = `localhost/purser-check:${images.size}`;
  const given: string[] = [];
  if (tarball !== packed) {
    // In place of the stage that packs: the files that it would make of this package.
    const stage = join(folder, `stage-${images.size}`);
    const prefix = join(stage, "opt/purser");
    const install = ["install", "--global", "--prefix", prefix, "--ignore-scripts", "--silent", tarball];
    run({ command: ["npm", ...install], env: { ...network, PATH: pathWith(node), HOME: folder } });
    mkdirSync(join(stage, "src/dist"), { recursive: true });
    cpSync(join(prefix, "lib/node_modules/purser/dist/sbom.cdx.json"), join(stage, "src/dist/sbom.cdx.json"));
    given.push("--build-context", `build=${stage}`);
  }
  const base = ["--network", "host", "--build-arg", `NODE_IMAGE=${containers.node()}`];
  containers.podman("build", ...base, ...given, "-f", join(root, "deploy/Dockerfile"), "-t", name, root);
  images.set(tarball, name);
  return name;
}
const imageMegabytes = (image: string) =>
  Math.round(Number(containers.podman("image", "inspect", "--format", "{{.Size}}", image)) / 1e6);

function ways(tarball: string, next: string): Record<string, () => Way> {
  const npx = (): Way => {
    const home = join(folder, "npx");
    mkdirSync(home);
    let installed = tarball;
    const purser = (...args: readonly string[]): Called => ({
      command: ["npx", "--yes", `--package=${installed}`, "purser", ...args],
      cwd: home,
      env: { ...network, PATH: pathWith(node), HOME: home, PURSER_ADMIN_KEY: ADMIN_KEY },
    });
    return {
      // npx installs with its first call.
      install: () => {},
      upgrade: () => {
        installed = next;
      },
      megabytes: () => megabytesOf(join(home, ".npm/_npx")),
      start: (port) => startProcess(purser("start"), port),
      purser: (...args) => run(purser(...args)),
      backup: (site) => [join(home, "backup.gz"), "--url", site],
    };
  };
  /** In a Debian with systemd as its first process, which is switched off and on for the second start. */
  const deb = (): Way => {
    const machine = "purser-check-deb";
    const { podman } = containers;
    const inside = (...command: readonly string[]) => podman("exec", machine, ...command);
    const switchOn = () => {
      podman("start", machine);
      inside("sh", "-c", "until systemctl is-system-running --wait | grep -Eq 'running|degraded'; do sleep 0.1; done");
    };
    const install = (of: string) => {
      const made = here("sh", "deploy/deb.sh", of, folder).trim();
      podman("cp", made, `${machine}:/root/purser.deb`);
      inside("sh", "-c", "apt-get update && apt-get install -y --reinstall /root/purser.deb");
    };
    const settings = (port: number) => ({ PORT: port, PURSER_ADMIN_KEY: ADMIN_KEY, LOG_LEVEL: "warn" });
    return {
      install: () => {
        const host = ["--privileged", "--systemd=always", "--network", "host"];
        podman("create", "--name", machine, ...host, containers.systemd());
        switchOn();
        install(tarball);
        expectThat(inside("stat", "-c", "%a", "/etc/purser/env") === "600", "/etc/purser/env is readable");
      },
      upgrade: () => {
        switchOn();
        install(next);
      },
      megabytes: () => Number(inside("du", "-sm", "/usr/lib/purser").split("\t")[0]),
      start: (port) => {
        switchOn();
        if (!inside("sh", "-c", "systemctl is-enabled purser || true").startsWith("enabled")) {
          const lines = Object.entries(settings(port)).map(([name, value]) => `${name}=${value}`);
          inside("sh", "-c", `printf '%s\n' ${lines.join(" ")} >> /etc/purser/env`);
          inside("systemctl", "enable", "--now", "purser");
        }
        return {
          log: () => inside("journalctl", "--unit", "purser", "--no-pager"),
          stop: async () => {
            inside("systemctl", "reload", "purser");
            podman("stop", "--time", "150", machine);
          },
        };
      },
      // As the guide does it, with the service's settings.
      purser: (...args) => {
        const given = ["--property=EnvironmentFile=/etc/purser/env", "--setenv=DATA_DIR=/var/lib/purser"];
        return inside("systemd-run", "--quiet", "--pipe", "--wait", "--collect", ...given, "/usr/bin/purser", ...args);
      },
      backup: () => ["/root/backup.gz"],
      remove: () => podman("rm", "--force", machine),
    };
  };
  /** The image, run as the guide says. */
  const image = (): Way => {
    const container = "purser-check-image";
    const { podman } = containers;
    let used = "";
    return {
      install: () => {
        used = imageOf(tarball);
      },
      upgrade: () => {
        used = imageOf(next);
      },
      megabytes: () => imageMegabytes(used),
      start: (port) => {
        const locked = ["--read-only", "--tmpfs", "/tmp", "--stop-timeout", "140"];
        const open = ["--publish", `127.0.0.1:${port}:3000`, "--volume", `${container}:/data`];
        const settings = [
          `PURSER_ADMIN_KEY=${ADMIN_KEY}`,
          "LOG_LEVEL=warn",
          `PURSER_PUBLIC_URL=http://127.0.0.1:${port}`,
        ];
        podman(
          "run",
          "--detach",
          "--name",
          container,
          ...locked,
          ...open,
          ...settings.flatMap((each) => ["--env", each]),
          used,
        );
        return {
          log: () => containers.run("sh", ["-c", `podman logs ${container} 2>&1`]),
          stop: async () => {
            podman("healthcheck", "run", container);
            podman("stop", container);
            const code = podman("inspect", "--format", "{{.State.ExitCode}}", container);
            expectThat(code === "0", `it ended with ${code}`);
            podman("rm", container);
          },
        };
      },
      purser: (...args) => podman("exec", container, "/opt/purser/bin/purser", ...args),
      backup: () => ["/data/backup.gz"],
      remove: () => {
        podman("rm", "--force", container);
        podman("volume", "rm", "--force", container);
      },
    };
  };
  /** deploy/compose.yaml, with another port and this machine's PostgreSQL. */
  const compose = (): Way => {
    const place = join(folder, "compose");
    mkdirSync(place);
    const api = containers.serve();
    const project = "purser-check";
    const files = ["-p", project, "-f", "compose.yaml", "-f", "other.yaml"];
    const call = (...args: readonly string[]) =>
      containers.run("docker-compose", [...files, ...args], { cwd: place, env: api.env });
    const secrets = [
      `POSTGRES_PASSWORD=${randomBytes(24).toString("hex")}`,
      `PURSER_KEK=k1:${randomBytes(32).toString("base64")}`,
      `PURSER_ADMIN_KEY=${ADMIN_KEY}`,
    ];
    let used = "";
    return {
      install: () => {
        used = imageOf(tarball);
        const postgres = { image: containers.postgres() };
        writeFileSync(join(place, "other.yaml"), JSON.stringify({ services: { postgres } }));
      },
      upgrade: () => {
        used = imageOf(next);
      },
      megabytes: () => imageMegabytes(used),
      start: (port) => {
        const text = readFileSync(join(root, "deploy/compose.yaml"), "utf8");
        writeFileSync(join(place, "compose.yaml"), text.replace("127.0.0.1:3000:", `127.0.0.1:${port}:`));
        const lines = [
          `PURSER_IMAGE=${used}`,
          ...secrets,
          `PURSER_PUBLIC_URL=http://127.0.0.1:${port}`,
          "LOG_LEVEL=warn",
        ];
        writeFileSync(join(place, ".env"), lines.join("\n"));
        // Podman leaves health checks to the systemd of this machine, which need not run.
        const checks = spawn("sh", ["-c", CHECK_HEALTH, project], { env: containers.env, stdio: "ignore" });
        try {
          call("up", "-d");
        } finally {
          checks.kill();
        }
        return {
          log: () => call("logs", "--no-color", "purser"),
          stop: async () => {
            call("stop");
          },
        };
      },
      purser: (...args) => call("exec", "-T", "purser", "/opt/purser/bin/purser", ...args),
      backup: () => ["/data/backup.gz"],
      remove: () => {
        call("down", "--volumes");
        api.stop();
      },
    };
  };
  const clone = (): Way => {
    const origin = join(folder, "origin");
    const place = join(folder, "clone");
    const git = (at: string, ...args: string[]) =>
      here("git", "-C", at, "-c", "user.name=x", "-c", "user.email=x@example.com", ...args);
    // The machine's own Node: npm ci brings another one where it is too old.
    const env = {
      ...network,
      PATH: pathWith(null),
      HOME: process.env.HOME ?? folder,
      PURSER_ADMIN_KEY: ADMIN_KEY,
    };
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
      megabytes: () => megabytesOf(place),
      start: (port) => startProcess({ command: ["npm", "start", "--silent"], cwd: place, env }, port),
      purser: (...args) => run({ command: ["npx", "purser", ...args], cwd: place, env }),
      backup: (site) => [join(place, "backup.gz"), "--url", site],
    };
  };
  return { npx, image, compose, deb, clone };
}

function startProcess({ command: [program = "", ...args], cwd, env }: Called, port: number): Running {
  const child: ChildProcess = spawn(program, args, {
    cwd: cwd ?? folder,
    env: { ...env, PORT: String(port), LOG_LEVEL: "warn" },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (bytes) => (output += bytes));
  const ended = once(child, "exit");
  return {
    log: () => output,
    hasEnded: () => child.exitCode !== null,
    async stop() {
      child.kill("SIGTERM");
      const [code, signal] = await ended;
      // npm ends by the signal, and the service after it.
      expectThat(code === 0 || signal === "SIGTERM", `it ended with ${code}: ${output.slice(-2000)}`);
      while (await isAnswering(`http://127.0.0.1:${port}/livez`)) await pause(20);
    },
  };
}

const isAnswering = (url: string) =>
  fetch(url).then(
    (answer) => answer.ok,
    () => false,
  );

async function start(way: Way, port: number): Promise<Running> {
  const running = way.start(port);
  const until = performance.now() + START_MS;
  while (!(await isAnswering(`http://127.0.0.1:${port}/readyz`))) {
    if (running.hasEnded?.() === true || performance.now() > until)
      throw new Error(`it did not start: ${running.log().slice(-2000)}`);
    await pause(20);
  }
  return running;
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

/** Of the link that the service writes to its log without a mail server. */
async function mailedToken(service: Running): Promise<string> {
  for (let tries = 0; tries < 50; tries++) {
    const [, token] = /#token=([\w-]+)/.exec(service.log()) ?? [];
    if (token !== undefined) return token;
    await pause(200);
  }
  throw new Error(`no link in the log: ${service.log().slice(-2000)}`);
}

async function tryWay(name: string, way: Way, port: number): Promise<Seconds> {
  try {
    return await takeSteps(name, way, port);
  } finally {
    way.remove?.();
  }
}

async function takeSteps(name: string, way: Way, port: number): Promise<Seconds> {
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
  const site = `http://127.0.0.1:${port}`;
  const api = `${site}/api/v1`;
  const key = await timed("sign-up", async () => {
    const origin = { Origin: site };
    const body = { email: "ada@example.com", password: PASSWORD };
    let signed = await ask(`${api}/auth/sign-up/email`, { headers: origin, body });
    if (JSON.parse(signed.text).status === "link_sent") {
      const token = await mailedToken(service);
      signed = await ask(`${api}/auth/verify-email`, { headers: origin, body: { token, password: PASSWORD } });
    }
    const cookies = signed.headers.getSetCookie().map((each) => each.split(";")[0]);
    const headers = { ...origin, Cookie: cookies.join("; ") };
    return JSON.parse((await ask(`${api}/api-keys`, { headers, body: { name: "first" } })).text).key as string;
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
    const output = way.purser("backup", ...way.backup(site));
    expectThat(/ [1-9]\d* rows, .* read back completely/.test(output), `the backup: ${output}`);
  });
  seconds.MB = String(way.megabytes());
  const balance = async () => JSON.parse((await ask(`${api}/users/me`, { headers })).text).balance.available as number;
  const before = await balance();
  const first_version = way.purser("--version");
  await service.stop();
  service = await timed("second start", () => start(way, port));
  await service.stop();
  await timed("upgrade", async () => {
    way.upgrade();
    service = await start(way, port);
  });
  expectThat((await balance()) === before, "the balance changed");
  await ask(`${api}/agents/${agent}`, { headers });
  const version = way.purser("--version");
  expectThat(version !== first_version, `it is still ${version}`);
  await service.stop();
  seconds.minutes = ((performance.now() - began) / 60_000).toFixed(1);
  return seconds;
}

/** The chart, without a cluster: its nodes run the image. */
function tryHelm(): Seconds {
  if (spawnSync("helm", ["version"]).error !== undefined) return { install: "not checked: Helm is not installed" };
  const from = performance.now();
  here(process.execPath, "test/run.ts", "test/unit/docs/helm.test.ts", "--project=tidy");
  const minutes = ((performance.now() - from) / 60_000).toFixed(1);
  return {
    ...Object.fromEntries(STEPS.map((step) => [step, "see image"])),
    install: "linted, rendered, checked against Kubernetes' schema",
    minutes,
  };
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

const from = performance.now();
const packed =
  options.tarball === undefined
    ? join(folder, here("npm", "pack", "--silent", "--pack-destination", folder).trim().split("\n").at(-1) ?? "")
    : null;
const tarball = packed ?? resolve(options.tarball ?? "");
process.stderr.write(
  `npm pack: ${((performance.now() - from) / 1000).toFixed(0)} s, ${(statSync(tarball).size / 1e6).toFixed(1)} MB\n`,
);
const installations = ways(tarball, options.next === undefined ? nextVersion(tarball) : resolve(options.next));
const NAMES: Record<string, string> = {
  npx: "npx of the packed tarball",
  image: "image of deploy/Dockerfile, in Podman",
  compose: "compose.yaml, in Podman",
  deb: "Debian package, under systemd",
  helm: "Helm chart",
  clone: "clone",
};
const others: Record<string, () => Seconds> = { helm: tryHelm, "old-node": () => tryOldNode(tarball) };
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
containers.close(images.values());
rmSync(folder, { recursive: true, force: true });
process.stdout.write(
  `| way | ${columns.join(" | ")} |\n|---|${"--:|".repeat(columns.length)}\n${rows.join("\n")}\n\n${names.length - failed} passed, ${failed} failed\n`,
);
process.exit(failed === 0 ? 0 : 1);
