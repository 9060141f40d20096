import { createHash } from "node:crypto";
import { createReadStream, createWriteStream, existsSync } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { RATE_SCALE } from "../../kernel/constants.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { readFileLines } from "../../platform/lib/json-lines.ts";
import type { ExportedEntry } from "./export-file.ts";
import type { ChainEnd, Verifier } from "./verify-export.ts";

/**
 * The files of an archived month: entries and usage events as JSON Lines with gzip, and a manifest. The manifest has a line for
 * each account, in the order of the entries. Its last line names the files, so that a cut manifest is recognised.
 */

const GZIP_LEVEL = 6;
/** Readable by the owner only. */
const PRIVATE = 0o600;

/** A row of usage_event. Only what a check reads is named. */
export interface ArchivedEvent {
  user_id: string;
  hold_id: string;
  input_tokens: number;
  cached_input_tokens: number;
  cache_write_tokens: number;
  cache_write_1h_tokens: number;
  output_tokens: number;
  input_rate_micro: number;
  cached_input_rate_micro: number | null;
  cache_write_rate_micro: number | null;
  cache_write_1h_rate_micro: number | null;
  output_rate_micro: number;
  cost: number;
  charged: number;
  overage: number;
  absorbed: number;
}

/** The chain of one account in one month, and what its calls cost. */
export interface AccountLine {
  user_id: string;
  after: ChainEnd;
  first: ChainEnd;
  last: ChainEnd;
  charged: number;
  overage: number;
  absorbed: number;
}

/** A file of the archive, as the database and the manifest record it. */
export interface FileLine {
  name: string;
  rows: number;
  bytes: number;
  sha256: string;
}

/** The last line of a manifest. */
export interface ManifestEnd {
  purser_archive: 1;
  /** 2026-01 */
  month: string;
  before: Instant;
  accounts: number;
  files: { entries: FileLine; usage_events: FileLine };
}

/** The names of a month's files. */
export function archiveFileNames(month: string) {
  return {
    entries: `entry-${month}.jsonl.gz`,
    usage_events: `usage_event-${month}.jsonl.gz`,
    manifest: `archive-${month}.jsonl`,
  };
}

/** Writes the lines to a file beside `path` and makes them durable. Returns the name of that file. */
export async function writePartial(path: string, lines: AsyncIterable<string>): Promise<string> {
  const partial = `${path}.${newId()}.partial`;
  const out = createWriteStream(partial, { mode: PRIVATE, flush: true });
  const source = Readable.from(lines);
  try {
    if (path.endsWith(".gz")) await pipeline(source, createGzip({ level: GZIP_LEVEL }), out);
    else await pipeline(source, out);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
  return partial;
}

/** Gives a complete file its name, durably. A file of that name may exist only with the same content. */
export async function finishFile(partial: string, path: string): Promise<void> {
  if (existsSync(path) && (await digestFile(path)).sha256 !== (await digestFile(partial)).sha256) {
    await rm(partial);
    throw new Error(`${path} exists with other content: move it to another folder, and repeat`);
  }
  await rename(partial, path);
  await syncFolder(dirname(path));
}

/** Makes the folder, durably: each folder that is new is named in its parent. */
export async function makeFolder(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true });
  if (first === undefined) return;
  const above = dirname(resolve(first));
  for (let parent = dirname(resolve(path)); ; parent = dirname(parent)) {
    await syncFolder(parent);
    if (parent === above || parent === dirname(parent)) return;
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path);
  await folder.sync().finally(() => folder.close());
}

/** The size of a file in bytes, and its SHA-256 in hex. */
export async function digestFile(path: string): Promise<Pick<FileLine, "bytes" | "sha256">> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const piece of createReadStream(path)) {
    hash.update(piece as Buffer);
    bytes += (piece as Buffer).length;
  }
  return { bytes, sha256: hash.digest("hex") };
}

/** The JSON lines of a file. */
async function* linesOf<Line>(path: string): AsyncGenerator<Line, undefined> {
  try {
    for await (const line of readFileLines(path, { is_gzip: path.includes(".gz") })) yield JSON.parse(line) as Line;
  } catch (error) {
    throw new Error(`${path} cannot be read: ${(error as Error).message}`);
  }
}

/** The last line of a manifest. Throws if it is cut. */
export async function readManifestEnd(path: string): Promise<ManifestEnd> {
  let last: Partial<ManifestEnd> = {};
  for await (const line of linesOf<Partial<ManifestEnd>>(path)) last = line;
  if (last.purser_archive !== 1 || last.files === undefined) {
    throw new Error(`${path} is no complete manifest of an archive: its end is missing`);
  }
  return last as ManifestEnd;
}

/**
 * Checks an archived month: the files match the manifest, the chain of each account runs from `after` to `last`, and
 * the entries of an account are what its usage events cost. Chains that `verifier` knows must continue.
 */
export async function verifyArchive(manifest: string, verifier: Verifier): Promise<ManifestEnd> {
  const end = await readManifestEnd(manifest);
  const pathOf = ({ name }: FileLine) => join(dirname(manifest), basename(name));
  for (const file of Object.values(end.files)) {
    if (!existsSync(pathOf(file))) throw new Error(`${pathOf(file)} is missing: put it beside its manifest`);
    const { sha256, bytes } = await digestFile(pathOf(file));
    if (sha256 === file.sha256 && bytes === file.bytes) continue;
    verifier.violation(`${file.name}: it is not the file of its manifest`);
    return end;
  }
  await verifyRows(
    { entries: pathOf(end.files.entries), usage_events: pathOf(end.files.usage_events), manifest },
    end,
    verifier,
  );
  return end;
}

/** As verifyArchive, with the given paths: a file that has no final name yet is checked, too. */
export async function verifyRows(
  paths: { entries: string; usage_events: string; manifest: string },
  end: ManifestEnd,
  verifier: Verifier,
): Promise<void> {
  const accounts = linesOf<AccountLine | ManifestEnd>(paths.manifest);
  const costs = new Map<string, number[]>();
  let account: AccountLine | undefined;
  let entries = 0;
  const finish = () => {
    if (account === undefined) return;
    const { seq, hash, balance } = verifier.endOf(account.user_id);
    const { last, user_id, charged, overage, absorbed } = account;
    if (seq !== last.seq || hash !== last.hash || balance !== last.balance) {
      verifier.violation(`${user_id}: the last entry is ${seq}, not ${last.seq} with the hash of the manifest`);
    }
    costs.set(user_id, [charged, overage, absorbed]);
  };
  for await (const entry of linesOf<ExportedEntry>(paths.entries)) {
    if (entry.user_id !== account?.user_id) {
      finish();
      const { value } = await accounts.next();
      account = value !== undefined && "user_id" in value ? value : undefined;
      if (account?.user_id !== entry.user_id) throw new Error(`${paths.manifest} has no line for ${entry.user_id}`);
      verifier.begin(entry.user_id, account.after);
    }
    verifier.check(entry);
    entries += 1;
  }
  finish();
  await accounts.return(undefined);
  const events = await verifyEvents(paths.usage_events, costs, verifier);
  const { files } = end;
  if (entries !== files.entries.rows)
    verifier.violation(`${files.entries.name}: ${entries} rows, not ${files.entries.rows}`);
  if (events !== files.usage_events.rows) {
    verifier.violation(`${files.usage_events.name}: ${events} rows, not ${files.usage_events.rows}`);
  }
}

/** Each event costs its tokens at their rates; together, an account's events cost its entries. */
async function verifyEvents(path: string, costs: Map<string, number[]>, verifier: Verifier): Promise<number> {
  let count = 0;
  for await (const event of linesOf<ArchivedEvent>(path)) {
    count += 1;
    const { user_id, hold_id, cost, charged, overage, absorbed } = event;
    if (cost !== charged + overage + absorbed || BigInt(cost) !== computeCost(event)) {
      verifier.violation(`usage event ${hold_id} of ${user_id}: it does not cost its tokens at their rates`);
    }
    const left = costs.get(user_id) ?? [0, 0, 0];
    costs.set(
      user_id,
      [charged, overage, absorbed].map((amount, index) => (left[index] ?? 0) - amount),
    );
  }
  for (const [user_id, left] of costs) {
    if (left.some((amount) => amount !== 0))
      verifier.violation(`${user_id}: its usage events cost other than its entries`);
  }
  return count;
}

function computeCost(event: ArchivedEvent): bigint {
  const { input_rate_micro: input, cache_write_tokens: written, cache_write_1h_tokens: written_1h } = event;
  const cache_write = event.cache_write_rate_micro ?? input;
  const parts: [number, number][] = [
    [event.input_tokens - event.cached_input_tokens - written, input],
    [event.cached_input_tokens, event.cached_input_rate_micro ?? input],
    [written - written_1h, cache_write],
    [written_1h, event.cache_write_1h_rate_micro ?? cache_write],
    [event.output_tokens, event.output_rate_micro],
  ];
  const micro = parts.reduce((sum, [tokens, rate]) => sum + BigInt(tokens) * BigInt(rate), 0n);
  const scale = BigInt(RATE_SCALE);
  return (micro + scale - 1n) / scale;
}
