import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createTestDatabase } from "./database.ts";
import { COMPILE_CACHE, FLAGS } from "./process.ts";
import { ADMIN_KEY } from "./service.ts";

const ROOT = join(import.meta.dirname, "../..");
const KEK = `test:${Buffer.alloc(32, 7).toString("base64")}`;

export interface Watched {
  url: string;
  /** A new user's key; the user has `tokens`. */
  newKey(tokens?: number): Promise<string>;
  /**
   * Since the last call: the worst delay of the service's event loop, and the most processor time of its main thread in
   * one turn, which other processes do not lengthen. And its memory now.
   */
  figures(): Promise<{ worst_ms: number; held_ms: number; rss_mb: number }>;
  stop(): Promise<void>;
}

/** The service in a process of its own, so that the test's work does not delay it. Its event loop is measured. */
export async function startWatchedService(): Promise<Watched> {
  const database = await createTestDatabase();
  const env = {
    PATH: process.env.PATH ?? "",
    NODE_COMPILE_CACHE: COMPILE_CACHE,
    PORT: "0",
    LOG_LEVEL: "silent",
    DATA_DIR: database.data_dir,
    PURSER_KEK: KEK,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url }),
  };
  const watching = [...FLAGS, "--import", join(import.meta.dirname, "report-loop-delay.ts"), "src/cli/main.ts"];
  const node = join(ROOT, "node_modules/.bin/node");
  const child = spawn(node, watching, { cwd: ROOT, env, stdio: ["ignore", "pipe", "inherit", "ipc"] });
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout?.on("data", (bytes) => {
      const found = /^listening on (http:\/\/\S+)$/m.exec(String(bytes))?.[1];
      if (found !== undefined) resolve(found);
    });
    child.on("close", () => reject(new Error("it ended before it listened")));
  });
  const asOperator = async (path: string, body: object) => {
    const headers = { Authorization: `Bearer ${ADMIN_KEY}`, "Content-Type": "application/json" };
    const answer = await fetch(`${url}/api/v1/admin/users${path}`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    return answer.json();
  };
  let sequence = 0;
  return {
    url,
    async newKey(tokens = 1_000_000) {
      sequence += 1;
      const { user, api_key } = await asOperator("", { email: `user${sequence}@example.com`, trial: false });
      await asOperator(`/${user.id}/grants`, { amount_tokens: tokens, source: "top_up" });
      return api_key.key;
    },
    async figures() {
      const answered = once(child, "message");
      child.send("figures");
      const [figures] = await answered;
      return figures;
    },
    async stop() {
      const ended = once(child, "close");
      child.kill("SIGTERM");
      await ended;
      await database.drop();
    },
  };
}
