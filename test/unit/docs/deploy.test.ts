import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { checkSettings } from "../../../src/cli/setting-faults.ts";
import { CALL_MS } from "../../../src/gateway/completions/charge.ts";
import { LIMITS, SHUTDOWN_SECONDS } from "../../../src/kernel/constants.ts";

// The files of deploy/, checked by the tools that read them. Continuous integration installs the tools (.ci/run).

const deploy = join(import.meta.dirname, "../../../deploy");
const text = (file: string) => readFileSync(join(deploy, file), "utf8");
const compose = parse(text("compose.yaml"));
const has = (tool: string) => spawnSync(tool, ["--version"]).error === undefined;
/** Debian's package installs it there, which is not in every user's PATH. */
const HAPROXY = "/usr/sbin/haproxy";
/** In continuous integration a missing tool is a failure. */
const missing = (tool: string) => `${tool} is not installed: run .ci/run, which installs it`;
const in_ci = process.env.CI !== undefined;

/** The latest end of the process after the drain (contract 1.5). */
const afterDrain = SHUTDOWN_SECONDS.streams + SHUTDOWN_SECONDS.exit;

describe("the time to stop", () => {
  const drainOf = (value: unknown) => Number(value) + afterDrain;

  it("of compose.yaml exceeds PURSER_DRAIN_SECONDS and the time after it", () => {
    const { stop_grace_period, environment } = compose.services.purser;
    expect(Number.parseInt(stop_grace_period, 10)).toBeGreaterThan(drainOf(environment.PURSER_DRAIN_SECONDS));
  });

  it("of the systemd unit exceeds PURSER_DRAIN_SECONDS and the time after it", () => {
    const unit = text("purser.service");
    const drain = /PURSER_DRAIN_SECONDS=(\d+)/.exec(unit)?.[1];
    expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])).toBeGreaterThan(drainOf(drain));
  });

  it("of the image is named for docker stop", () => {
    const timeout = Number(/--stop-timeout (\d+)/.exec(text("Dockerfile"))?.[1]);
    expect(timeout).toBeGreaterThan(drainOf(SHUTDOWN_SECONDS.drain));
  });
});

describe("the container", () => {
  it("runs without root and with a read-only root file system everywhere", () => {
    expect(text("Dockerfile")).toMatch(/^USER 10001:10001$/m);
    expect(compose.services.purser).toMatchObject({ read_only: true, cap_drop: ["ALL"], user: "10001:10001" });
  });

  it("names its base images by digest, and so does compose.yaml its database", () => {
    const bases = [...text("Dockerfile").matchAll(/^FROM (\S+)/gm)].map(([, image]) => image);
    expect(new Set(bases)).toEqual(new Set(["$NODE_IMAGE"]));
    // With the registry's name, because Podman has no default one.
    for (const image of [/^ARG NODE_IMAGE=(\S+)$/m.exec(text("Dockerfile"))?.[1], compose.services.postgres.image])
      expect(image).toMatch(/^docker\.io\/library\/\S+:\S+@sha256:[0-9a-f]{64}$/);
  });
});

describe("compose.yaml", () => {
  it("gives PostgreSQL the shared memory of its largest query: three processes with twice 64 MB each", () => {
    expect(Number.parseInt(compose.services.postgres.shm_size, 10)).toBeGreaterThan(3 * 2 * 64);
  });

  it.each(["purser", "postgres"])("limits the log of %s, so that it does not fill the database's disk", (name) => {
    expect(compose.services[name].logging).toMatchObject({ driver: "json-file", options: { "max-size": "50m" } });
  });
});

describe("the proxy of the installation guide", () => {
  const nginx = () => /```nginx\n([\s\S]*?)```/.exec(text("../docs/operating/install.md"))?.[1] ?? "";

  it("takes the largest body of a request", () => {
    const [, megabytes] = /client_max_body_size (\d+)m;/.exec(nginx()) ?? [];
    expect(Number(megabytes) * 1024 * 1024).toBeGreaterThanOrEqual(LIMITS.model_body_bytes);
  });

  it("waits longer than the longest call", () => {
    expect(Number(/proxy_read_timeout (\d+)s;/.exec(nginx())?.[1])).toBeGreaterThan(CALL_MS / 1000);
  });
});

describe("the image's health check", () => {
  const command: string[] = JSON.parse(/CMD (\["node".*\])$/m.exec(text("Dockerfile"))?.[1] ?? "[]");
  const check = async (env: NodeJS.ProcessEnv) => {
    const child = spawn(process.execPath, command.slice(1), { env, stdio: "ignore" });
    const [code] = await once(child, "exit");
    return code;
  };

  it("passes while /readyz answers 200 on the public port", async () => {
    let status = 200;
    const server = createServer((request, response) =>
      response.writeHead(request.url === "/readyz" ? status : 404).end(),
    );
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    expect(await check({ PORT: String(port) })).toBe(0);
    status = 503;
    expect(await check({ PORT: String(port) })).toBe(1);
    server.close();
  });
});

describe("deploy/.env, which has the master key,", () => {
  it.each([".dockerignore", ".gitignore"])("is excluded by %s", (file) => {
    expect(readFileSync(join(deploy, "..", file), "utf8").split("\n")).toContainEqual(
      expect.stringMatching(/^(\*\*\/)?\.env$/),
    );
  });
});

describe("the tools", () => {
  it("systemd-analyze verify accepts the unit", (context) => {
    if (!has("systemd-analyze"))
      return in_ci ? expect.fail(missing("systemd-analyze")) : context.skip(missing("systemd-analyze"));
    const folder = mkdtempSync(join(tmpdir(), "purser-unit-"));
    // The command of the unit must exist for the check.
    const unit = text("purser.service").replaceAll("/usr/bin/purser start", "/bin/true");
    writeFileSync(join(folder, "purser.service"), unit);
    const { status, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", join(folder, "purser.service")], {
      encoding: "utf8",
    });
    rmSync(folder, { recursive: true });
    expect([status, stderr.split("\n").filter((line) => line.includes("purser.service"))]).toEqual([0, []]);
  });

  it("haproxy accepts the examples of several nodes and of cells", (context) => {
    if (!has(HAPROXY)) return in_ci ? expect.fail(missing(HAPROXY)) : context.skip(missing(HAPROXY));
    const addresses = { NODE_1: "127.0.0.1:3001", NODE_2: "127.0.0.1:3002", CELL_A: "127.0.0.1:3001" };
    const env = {
      PATH: process.env.PATH,
      PURSER_ROUTER: "127.0.0.1:8080",
      ...addresses,
      CELL_B: addresses.NODE_2,
      CELLS_MAP: join(deploy, "haproxy-cells.map"),
    };
    for (const file of ["haproxy-nodes.cfg", "haproxy-cells.cfg"]) {
      const { status, stderr } = spawnSync(HAPROXY, ["-c", "-f", join(deploy, file)], { env, encoding: "utf8" });
      expect([file, status, stderr]).toEqual([file, 0, ""]);
    }
  });

  it("docker-compose config accepts compose.yaml, gives Purser each line of .env, and names missing ones", (context) => {
    if (!has("docker-compose"))
      return in_ci ? expect.fail(missing("docker-compose")) : context.skip(missing("docker-compose"));
    const folder = mkdtempSync(join(tmpdir(), "purser-compose-"));
    writeFileSync(join(folder, "compose.yaml"), text("compose.yaml"));
    const config = (...lines: string[]) => {
      writeFileSync(join(folder, ".env"), lines.join("\n"));
      const args = ["-f", join(folder, "compose.yaml"), "config"];
      return spawnSync("docker-compose", args, { env: { PATH: process.env.PATH }, encoding: "utf8" });
    };
    const needed = [
      "PURSER_IMAGE=registry.example/purser:1.0.0",
      `PURSER_KEK=k1:${Buffer.alloc(32).toString("base64")}`,
      "PURSER_ADMIN_KEY=an-operators-key-of-the-test",
      "OPENAI_API_KEY=sk-1",
    ];
    const { stdout } = config("POSTGRES_PASSWORD=p", ...needed);
    const without = config(...needed);
    rmSync(folder, { recursive: true });
    expect(parse(stdout).services.purser).toMatchObject({
      environment: { OPENAI_API_KEY: "sk-1", PURSER_DRAIN_SECONDS: "120" },
      stop_grace_period: "140s",
      image: "registry.example/purser:1.0.0",
      depends_on: { postgres: { condition: "service_healthy" } },
    });
    expect(checkSettings(parse(stdout).services.purser.environment).faults).toEqual([]);
    expect(without.stderr).toContain("set POSTGRES_PASSWORD in .env");
  });
});
