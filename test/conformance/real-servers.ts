import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { ToolsConfig } from "../../src/api/contract/tools.ts";
import { aCall, toolsWith, UNSTOPPED } from "../support/tools.ts";

/** Servers that people run behind a bridge from stdio to streamable HTTP, which starts one process per session. */
export const REAL_PACKAGES = [
  "supergateway@4.0.0",
  "@modelcontextprotocol/server-filesystem@2026.8.31",
  "@modelcontextprotocol/server-memory@2026.8.31",
] as const;

const START_MS = 30_000;

interface RealServer {
  name: string;
  command(folder: string): string;
  /** Three calls, and the text that each result has. */
  calls: readonly (readonly [tool: string, given: (folder: string) => unknown, wanted: string])[];
}

const ENTITY = { name: "berth", entityType: "place", observations: ["is free"] };
const SERVERS: readonly RealServer[] = [
  {
    name: "filesystem",
    command: (folder) =>
      `node node_modules/@modelcontextprotocol/server-filesystem/dist/index.js ${join(folder, "files")}`,
    calls: [
      ["write_file", (folder) => ({ path: join(folder, "files/a.txt"), content: "berth 7" }), "a.txt"],
      ["read_text_file", (folder) => ({ path: join(folder, "files/a.txt") }), "berth 7"],
      ["list_directory", (folder) => ({ path: join(folder, "files") }), "a.txt"],
    ],
  },
  {
    name: "memory",
    command: () => "node node_modules/@modelcontextprotocol/server-memory/dist/index.js",
    calls: [
      ["create_entities", () => ({ entities: [ENTITY] }), "berth"],
      ["search_nodes", () => ({ query: "berth" }), "is free"],
      ["read_graph", () => ({}), "berth"],
    ],
  },
];

/** A run of three calls with each server: whether all succeeded, the sessions that it took, and its time. */
export async function useRealServers(folder: string): Promise<{ name: string; passed: boolean; text: string }[]> {
  mkdirSync(join(folder, "files"), { recursive: true });
  writeFileSync(join(folder, "files/b.txt"), "");
  const outcomes = [];
  for (const server of SERVERS) outcomes.push(await useServer(server, folder));
  return outcomes;
}

async function useServer({ name, command, calls }: RealServer, folder: string) {
  const port = await freePort();
  const bridge = spawn(
    join(folder, "node_modules/.bin/supergateway"),
    ["--stdio", command(folder), "--outputTransport", "streamableHttp", "--stateful", "--port", String(port)],
    {
      cwd: folder,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, MEMORY_FILE_PATH: join(folder, "memory.jsonl") },
    },
  );
  let log = "";
  for (const stream of [bridge.stdout, bridge.stderr]) stream.on("data", (bytes) => (log += bytes));
  const host = `127.0.0.1:${port}`;
  try {
    await untilListening(port, bridge);
    const { tools } = toolsWith({ allow: [host] });
    const tools_config: ToolsConfig = {
      mcp: { enabled: true, servers: [{ name, url: `http://${host}/mcp` }] },
    };
    const { run } = aCall("", {});
    const began = performance.now();
    const definitions = await tools.definitions(tools_config, run, UNSTOPPED);
    let passed = definitions.length > 0;
    for (const [tool, given, wanted] of calls) {
      const result = await tools.call(aCall(`${name}__${tool}`, given(folder), { tools_config, run }));
      if (result.status !== "succeeded" || !result.result.includes(wanted)) {
        passed = false;
        console.error(name, tool, result);
      }
    }
    const took_ms = performance.now() - began;
    await tools.endRun(run.run_id);
    const sessions = log.split("(new session)").length - 1;
    passed &&= sessions === 1 && log.includes("DELETE");
    const text = `listing and ${calls.length} calls in ${sessions} session: ${Math.round(took_ms)} ms`;
    return { name, passed, text };
  } finally {
    bridge.kill();
  }
}

async function freePort(): Promise<number> {
  const socket = createServer();
  await new Promise<void>((resolve) => socket.listen(0, "127.0.0.1", resolve));
  const { port } = socket.address() as AddressInfo;
  await new Promise((resolve) => socket.close(resolve));
  return port;
}

async function untilListening(port: number, bridge: ChildProcess): Promise<void> {
  for (let left_ms = START_MS; left_ms > 0 && bridge.exitCode === null; left_ms -= 100) {
    const is_up = await fetch(`http://127.0.0.1:${port}/mcp`).then(
      () => true,
      () => false,
    );
    if (is_up) return;
    await delay(100);
  }
  throw new Error("the bridge did not start");
}
