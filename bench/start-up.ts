import { fileURLToPath } from "node:url";
import { type PostgresServer, startPostgres } from "../test/support/postgres-server.ts";
import { closedLoop } from "./support/load.ts";
import type { Effort, Outcome } from "./support/outcome.ts";
import { residentMb, startServer } from "./support/processes.ts";
import { configure, createPlace, type Place, startService } from "./support/service.ts";
import { median } from "./support/statistics.ts";

const ROOT = fileURLToPath(import.meta.resolve("../"));
const UPSTREAM = fileURLToPath(import.meta.resolve("./peers/upstream.ts"));
const LOAD_SECONDS = 5;
const SETTLE_MS = 1_000;

/** The time from `npm start` to the first answer, and the service's memory, idle and after a load. */
export async function startUp(effort: Effort): Promise<Outcome> {
  const server = await startPostgres();
  const upstream = await startServer([process.execPath, UPSTREAM], { core: "load" });
  try {
    const fresh: number[] = [];
    const warm: number[] = [];
    const on_postgres: number[] = [];
    const postgres_place = await createPlace(server);
    await firstAnswerMs(postgres_place);
    for (let round = 0; round < effort.rounds; round += 1) {
      const place = await createPlace(null);
      fresh.push(await firstAnswerMs(place));
      warm.push(await firstAnswerMs(place));
      on_postgres.push(await firstAnswerMs(postgres_place));
      await place.drop();
    }
    await postgres_place.drop();
    const memory = (storage: PostgresServer | null) => memoryMb(storage, upstream.url, LOAD_SECONDS * effort.scale);
    return {
      name: "start-up",
      title: "Start-up and memory",
      tables: [
        {
          caption: "`npm start` to the first answer",
          columns: ["ms"],
          rows: [
            { name: "embedded, first start in an empty folder", values: [median(fresh)] },
            { name: "embedded, warm", values: [median(warm)] },
            { name: "PostgreSQL", values: [median(on_postgres)] },
          ],
          drawn: [0],
        },
        {
          caption: "Resident memory of the service",
          columns: ["idle, MB", "after completions by 32 callers, MB"],
          rows: [
            { name: "embedded", values: await memory(null) },
            { name: "PostgreSQL", values: await memory(server) },
          ],
        },
      ],
      ratios: [{ of: "embedded, warm start", to: "1.5 s", value: median(warm) / 1500, goal: "≤ 1" }],
    };
  } finally {
    await upstream.stop();
    await server.stop();
  }
}

async function firstAnswerMs(place: Place): Promise<number> {
  const from_ms = performance.now();
  const server = await startServer(["npm", "start"], { cwd: ROOT, env: place.env });
  const response = await fetch(`${server.url}/readyz`);
  const took_ms = performance.now() - from_ms;
  await response.text();
  await server.stop();
  if (!response.ok) throw new Error(`the first answer was ${response.status}`);
  return took_ms;
}

/** The memory of a service on existing data: idle, then after a load. */
async function memoryMb(server: PostgresServer | null, upstream_url: string, seconds: number): Promise<number[]> {
  const place = await createPlace(server);
  configure(place, upstream_url);
  const maker = await startService(place);
  const { key } = await maker.newUser();
  await maker.stop();
  const service = await startService(place, { core: "service" });
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const idle = residentMb(service.pid);
  const body = { model: "bench/instant", messages: [{ role: "user", content: "Hello" }] };
  const headers = { authorization: `Bearer ${key}` };
  const path = "/api/v1/chat/completions";
  await closedLoop({ port: service.port, path, headers, body }, { callers: 32, seconds });
  const loaded = residentMb(service.pid);
  await service.stop();
  await place.drop();
  return [idle, loaded];
}
