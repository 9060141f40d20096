import { createHash } from "node:crypto";
import { entryId } from "./entry-id.ts";
import type { ExportedEntry } from "./export-file.ts";

/** Most violations reported. One is enough to act, and the first of an account causes the others. */
const MAX_VIOLATIONS = 20;
const NO_HASH = "0".repeat(64);

/** The result of checking files. */
export interface Verification {
  entries: number;
  accounts: number;
  /** Accounts whose first entry in the files is not entry 1. */
  begin_later: number;
  violations: string[];
}

/** An entry of an account's hash chain: the last that was checked. */
export interface ChainEnd {
  seq: number;
  balance: number;
  hash: string;
}

const BEGINNING: ChainEnd = { seq: 0, balance: 0, hash: NO_HASH };

/** Checks the entries of one file after another. Each account's chain continues from file to file. */
export interface Verifier {
  /** Begins the account's chain after an entry of an earlier file. If that file was checked, its end must be that entry. */
  begin(user_id: string, after: ChainEnd): void;
  check(entry: ExportedEntry): void;
  /** The last checked entry of an account. */
  endOf(user_id: string): ChainEnd;
  violation(text: string): void;
  result(): Verification;
}

/** A verifier that has checked nothing yet. It keeps the last entry of each account. */
export function createVerifier(): Verifier {
  const chains = new Map<string, ChainEnd>();
  const violations: string[] = [];
  let entries = 0;
  let begin_later = 0;
  const violation = (text: string) => {
    if (violations.length < MAX_VIOLATIONS) violations.push(text);
  };
  const endOf = (user_id: string) => chains.get(user_id) ?? BEGINNING;
  return {
    begin(user_id, after) {
      const before = chains.get(user_id);
      if (before === undefined && after.seq > 0) begin_later += 1;
      else if (endOf(user_id).hash !== after.hash || endOf(user_id).seq !== after.seq) {
        violation(
          `${user_id}: the file follows on entry ${after.seq}, the files before it end with ${endOf(user_id).seq}`,
        );
      }
      chains.set(user_id, after);
    },
    check(entry) {
      entries += 1;
      const found = findViolation(entry, endOf(entry.user_id));
      if (found !== null) violation(`entry ${entry.seq} of ${entry.user_id}: ${found}`);
      chains.set(entry.user_id, { seq: entry.seq, balance: entry.balance_after, hash: entry.hash });
    },
    endOf,
    violation,
    result: () => ({ entries, accounts: chains.size, begin_later, violations }),
  };
}

/**
 * Checks an export, oldest entry first: numbers from 1 without a gap, each balance and each hash derived from the
 * previous entry. It cannot detect entries that are missing at the end of the file.
 */
export async function verifyExport(entries: AsyncIterable<ExportedEntry>, verifier = createVerifier()) {
  for await (const entry of entries) verifier.check(entry);
  return verifier.result();
}

function findViolation(entry: ExportedEntry, before: ChainEnd): string | null {
  if (entry.seq !== before.seq + 1) {
    const archived =
      before.seq === 0 ? ": if earlier entries are archived, name the manifests of the archive first" : "";
    return `it follows on entry ${before.seq}${archived}`;
  }
  const moves_balance = entry.type !== "overage" && entry.type !== "absorbed";
  const balance = before.balance + (moves_balance ? entry.amount : 0);
  if (entry.balance_after !== balance) return `balance_after is ${entry.balance_after}, not ${balance}`;
  if (entry.hash !== entryHash(before.hash, entry)) return "its hash is not that of its fields and the hash before";
  if (entry.id !== entryId(entry)) return `its id is ${entry.id}, not that of its time and hash`;
  return null;
}

/** The hash of an entry in hex (README.md, "Exports, and checking one"). */
export function entryHash(previous: string, entry: ExportedEntry): string {
  const { user_id, seq, type, amount, balance_after, bucket_id, source, hold_id, model, agent_id, run_id } = entry;
  const { request_id, api_key_id, description, created_at } = entry;
  const of_call = [hold_id, model, agent_id, run_id, request_id, api_key_id];
  const fields = [
    previous,
    user_id,
    seq,
    type,
    amount,
    balance_after,
    bucket_id,
    source,
    ...of_call,
    description,
    created_at,
  ];
  const text = `[${fields.map((field) => JSON.stringify(field)).join(", ")}]`;
  return createHash("sha256").update(text).digest("hex");
}
