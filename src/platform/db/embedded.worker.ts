import fs from "node:fs";
import { join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { PGlite, parse, protocol, type Results } from "@electric-sql/pglite";
import { NodeFS } from "@electric-sql/pglite/nodefs";
import type { EmbeddedAnswer, EmbeddedRequest } from "./embedded.adapter.ts";
import { ROW_PARSERS } from "./row-parsers.ts";

// PGlite is synchronous. It runs in this thread, so that it does not block the service's main thread.

/** The default is 128 MB. The lower value keeps an embedded service near 250 MB of memory. */
const SHARED_BUFFERS = "16MB";
/** PGlite runs neither the checkpointer nor autovacuum. At this interval, we do their work if statements have run. */
const MAINTENANCE_MS = 30_000;
const STATEMENTS_PER_VACUUM = 20_000;
/** A checkpoint on a full disk breaks the database until a restart. Two WAL segments are 32 MB. */
const CHECKPOINT_BYTES = 32_000_000;

const WAL_POSITION = "select pg_current_wal_insert_lsn()::text as at";

interface EmscriptenStream {
  nfd: number;
}

/**
 * PGlite's own file system never calls fsync, so a machine crash could lose a committed transaction. This class syncs.
 */
class DurableFS extends NodeFS {
  override async init(...args: Parameters<NodeFS["init"]>): ReturnType<NodeFS["init"]> {
    const result = await super.init(...args);
    const syncStreams = (module: { NODEFS: { stream_ops: Record<string, unknown> } }) => {
      module.NODEFS.stream_ops.fsync = (stream: EmscriptenStream) => {
        fs.fdatasyncSync(stream.nfd);
        return 0;
      };
    };
    result.emscriptenOpts.preRun?.push(syncStreams as never);
    return result;
  }
}

/** The default start parameters without `-F` (no fsync), plus real syncing and less memory. */
function startParams(): string[] {
  const kept = PGlite.defaultStartParams.filter((param) => param !== "-F");
  const set = ["fsync=on", "wal_sync_method=fsync", `shared_buffers=${SHARED_BUFFERS}`, "TimeZone=UTC"];
  return [...kept, ...set.flatMap((setting) => ["-c", setting])];
}

const port = parentPort;
if (port === null) throw new Error("embedded.worker.ts runs as a worker thread only");
const answer = (message: EmbeddedAnswer) => port.postMessage(message);

const { directory } = workerData as { directory: string };
const pglite = new PGlite({ fs: new DurableFS(directory), startParams: startParams(), parsers: { ...ROW_PARSERS } });
let statements = 0;
let maintained = 0;
let in_transaction = false;

async function run(request: EmbeddedRequest): Promise<void> {
  if (request.kind === "close") {
    clearInterval(maintenance);
    await pglite.close();
    answer({ kind: "rows", id: request.id, rows: [], row_count: 0 });
    port?.close();
    return;
  }
  if (request.kind === "listen") {
    await pglite.listen(request.text, (payload) => answer({ kind: "notification", channel: request.text, payload }));
    answer({ kind: "rows", id: request.id, rows: [], row_count: 0 });
    return;
  }
  if (request.kind === "snapshot") {
    await snapshot(request.text);
    answer({ kind: "rows", id: request.id, rows: [], row_count: 0 });
    return;
  }
  statements += 1;
  if (request.kind === "script") {
    await pglite.exec(request.text);
    answer({ kind: "rows", id: request.id, rows: [], row_count: 0 });
    return;
  }
  if (request.text === "begin") in_transaction = true;
  if (request.text === "commit" || request.text === "rollback") in_transaction = false;
  const values = [...(request.values ?? [])];
  const result = await (request.name === undefined
    ? pglite.query(request.text, values)
    : queryPrepared(request.name, request.text, values));
  answer({ kind: "rows", id: request.id, rows: result.rows, row_count: result.affectedRows ?? 0 });
}

/** The prepared statements, by their names. `types` has the types of the parameters, as PostgreSQL numbers them. */
const prepared = new Map<string, { text: string; types: readonly number[] }>();

/** PGlite's `query` parses and plans a statement at each call, which can take as long as the statement. */
async function queryPrepared(name: string, text: string, values: readonly unknown[]): Promise<Results> {
  const { serialize } = protocol;
  const send = (message: Uint8Array) => pglite.execProtocolStream(message, { syncToFs: false });
  const prepare = async () => {
    prepared.delete(name);
    await send(serialize.close({ type: "S", name }));
    await send(serialize.parse({ name, text }));
    const types = parse.parseDescribeStatementResults(await send(serialize.describe({ type: "S", name })));
    prepared.set(name, { text, types });
    return types;
  };
  const execute = async () => {
    const known = prepared.get(name);
    const types = known?.text === text ? known.types : await prepare();
    const given = values.map((value, nth) => {
      if (value === null || value === undefined) return null;
      return (pglite.serializers[types[nth] ?? 0] ?? String)(value);
    });
    return [
      ...(await send(serialize.bind({ statement: name, values: given }))),
      ...(await send(serialize.describe({ type: "P" }))),
      ...(await send(serialize.execute({}))),
    ];
  };
  const messages = await execute().finally(() => send(serialize.sync()));
  return parse.parseResults(messages, pglite.parsers)[0] as Results;
}

/** No statement runs in this thread meanwhile, so the files fit together. After a checkpoint the copy opens quickly. */
async function snapshot(copy: string): Promise<void> {
  const files = fs.readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const bytes = files.reduce((sum, { parentPath, name }) => sum + fs.statSync(join(parentPath, name)).size, 0);
  const { bavail, bsize } = fs.statfsSync(directory);
  if (bavail * bsize < bytes + CHECKPOINT_BYTES) {
    throw new Error(`a snapshot needs ${Math.ceil(bytes / 1e6) + 32} MB of free disk space beside the database`);
  }
  await pglite.exec("checkpoint");
  fs.cpSync(directory, copy, { recursive: true, mode: fs.constants.COPYFILE_FICLONE });
}

// Requests run strictly in the order of arrival. The adapter gives the one connection to one owner at a time, so the
// statements of a transaction are never mixed with others.
let queue: Promise<void> = pglite.waitReady.then(() => answer({ kind: "ready" }));
queue.catch((error: Error) => answer({ kind: "failed_to_open", message: error.message ?? error.name }));

port.on("message", (request: EmbeddedRequest) => {
  queue = queue
    .then(() => run(request))
    .catch((error: Error & { code?: string; constraint?: string }) => {
      const { message, code, constraint } = error;
      answer({ kind: "error", id: request.id, message, code, constraint });
    });
});

function hasSpace(): boolean {
  const { bavail, bsize } = fs.statfsSync(directory);
  return bavail * bsize >= CHECKPOINT_BYTES;
}

/** Of a large database it takes minutes, so the watchdog has another limit for it. */
async function vacuumAll(): Promise<void> {
  answer({ kind: "vacuum", begins: true });
  await pglite.exec("vacuum (analyze)").finally(() => answer({ kind: "vacuum", begins: false }));
}

/** Where the WAL ended after the last checkpoint. Reads write none, so an idle service leaves the disk alone. */
let checkpointed_at = "";

async function checkpointIfWritten(): Promise<void> {
  const position = async () => (await pglite.query<{ at: string }>(WAL_POSITION)).rows[0]?.at ?? "";
  if ((await position()) === checkpointed_at) return;
  await pglite.exec("checkpoint");
  checkpointed_at = await position();
}

const maintenance = setInterval(() => {
  if (statements === maintained || in_transaction || !hasSpace()) return;
  const vacuum = statements - maintained > STATEMENTS_PER_VACUUM;
  queue = queue
    .then(async () => {
      if (in_transaction) return;
      if (vacuum) await vacuumAll();
      await checkpointIfWritten();
      maintained = vacuum ? statements : maintained;
    })
    .catch(() => {});
}, MAINTENANCE_MS);
