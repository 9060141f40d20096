import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { RATE_SCALE } from "../../src/kernel/constants.ts";
import { type PostgresServer, runSql } from "../../test/support/postgres-server.ts";
import { COMPILE_CACHE } from "../../test/support/process.ts";
import { type Core, type ServerProcess, startServer } from "./processes.ts";

export type Storage = "embedded" | "postgres";

const MAIN = fileURLToPath(import.meta.resolve("../../src/cli/main.ts"));
const ADMIN_KEY = "operator-key-of-the-bench";
/** The tokens granted to each user of the bench. */
const PLENTY_TOKENS = 1_000_000_000_000;
/** Odd on purpose, so that no product of counts and rates is whole. */
export const BENCH_RATES = {
  input_rate_micro: 333_333,
  cached_input_rate_micro: null,
  cache_write_rate_micro: null,
  cache_write_1h_rate_micro: null,
  output_rate_micro: 1_000_001,
  tiers: [],
};

/** The storage of a service: its own folder and, on PostgreSQL, its own database. */
export interface Place {
  storage: Storage;
  folder: string;
  database_url: string | null;
  env: Record<string, string>;
  /** Arguments of Node for the services of this place. */
  node_args?: readonly string[];
  drop(): Promise<void>;
}

export interface BenchUser {
  id: string;
  key: string;
}

export interface BenchService extends ServerProcess {
  /** Creates a user with practically unlimited tokens. */
  newUser(): Promise<BenchUser>;
  /** A JSON answer of the API; throws on any status but 2xx. */
  call<Body>(method: string, path: string, options?: { key?: string; body?: unknown }): Promise<Body>;
}

let sequence = 0;

/** Creates a place. `server` decides the storage. */
export async function createPlace(server: PostgresServer | null): Promise<Place> {
  if (server === null) return createFolderPlace(null);
  sequence += 1;
  await runSql(server.url("postgres"), `create database bench_${sequence}`);
  return createFolderPlace(server.url(`bench_${sequence}`));
}

/** A place with a new folder. `database_url`: an existing database; null: embedded storage. */
export function createFolderPlace(database_url: string | null): Place {
  const folder = mkdtempSync(join(tmpdir(), "purser-bench-"));
  return placeOf({ folder, database_url, drop: async () => rmSync(folder, { recursive: true, force: true }) });
}

/** A place with an existing folder, and an existing database if any. */
export function placeOf(found: Pick<Place, "folder" | "database_url" | "node_args" | "drop">): Place {
  const env: Record<string, string> = {
    PORT: "0",
    HOST: "127.0.0.1",
    DATA_DIR: found.folder,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: `bench:${randomBytes(32).toString("base64")}`,
    LOG_LEVEL: "warn",
    ...(found.database_url === null ? {} : { DATABASE_URL: found.database_url }),
  };
  return { ...found, storage: found.database_url === null ? "embedded" : "postgres", env };
}

/** Configures the place's services with an upstream: the models `bench/instant` and `bench/slow`, and no rate limit. */
export function configure(place: Place, upstream_url: string): void {
  const model = (name: string) => ({
    id: `bench/${name}`,
    provider: "bench",
    provider_model: name,
    input_rate: BENCH_RATES.input_rate_micro / RATE_SCALE,
    output_rate: BENCH_RATES.output_rate_micro / RATE_SCALE,
    trial_eligible: true,
    context_window: 128_000,
    max_output_tokens: 4096,
  });
  unlimit(place, {
    providers: [{ name: "bench", kind: "openai-compatible", base_url: `${upstream_url}/v1` }],
    models: [model("instant"), model("slow")],
  });
}

/** Gives the place's services a configuration without a rate limit. */
export function unlimit(place: Place, settings: object = {}): void {
  place.env.PURSER_CONFIG = join(place.folder, "purser.json");
  writeFileSync(
    place.env.PURSER_CONFIG,
    JSON.stringify({ ...settings, limits: { requests_per_minute: 1_000_000_000 } }),
  );
}

/**
 * Starts the service as `npm start` does, in a process of its own. `main`: that of another version; `output`: a file for
 * all that it prints.
 */
export async function startService(
  place: Place,
  options: { core?: Core; node_args?: readonly string[]; main?: string; output?: string } = {},
): Promise<BenchService> {
  const command = [process.execPath, ...(place.node_args ?? []), ...(options.node_args ?? []), options.main ?? MAIN];
  const env = { ...place.env, NODE_COMPILE_CACHE: COMPILE_CACHE };
  const { core, output } = options;
  const server = await startServer(command, { env, ...(core ? { core } : {}), ...(output ? { output } : {}) });

  const call: BenchService["call"] = async (method, path, { key = ADMIN_KEY, body } = {}) => {
    const response = await fetch(`${server.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text);
  };
  return {
    ...server,
    call,
    async newUser() {
      const { user, api_key } = await call<{ user: { id: string }; api_key: { key: string } }>(
        "POST",
        "/api/v1/admin/users",
        { body: { email: `${randomBytes(6).toString("hex")}@example.com`, trial: false } },
      );
      const grant = { amount_tokens: PLENTY_TOKENS, source: "top_up" };
      await call("POST", `/api/v1/admin/users/${user.id}/grants`, { body: grant });
      return { id: user.id, key: api_key.key };
    },
  };
}
