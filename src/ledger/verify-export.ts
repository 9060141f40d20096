import { createHash } from "node:crypto";
import { entryId } from "./entry-id.ts";
import type { ExportedEntry } from "./export-file.ts";

/** Most violations reported. One is enough to act, and the first of an account causes the others. */
const MOST_VIOLATIONS = 20;
const NO_HASH = "0".repeat(64);

/** The result of checking a file. */
export interface Verification {
  entries: number;
  accounts: number;
  violations: string[];
}

/** The last checked entry of an account's hash chain. */
interface Chain {
  seq: number;
  balance: number;
  hash: string;
}

/**
 * Checks an export, oldest entry first: numbers from 1 without a gap, each balance and each hash derived from the
 * previous entry. It cannot detect entries that are missing at the end of the file.
 */
export async function verifyExport(entries: AsyncIterable<ExportedEntry>): Promise<Verification> {
  const chains = new Map<string, Chain>();
  const violations: string[] = [];
  let count = 0;
  for await (const entry of entries) {
    count += 1;
    const before = chains.get(entry.user_id) ?? { seq: 0, balance: 0, hash: NO_HASH };
    const found = violationOf(entry, before);
    if (found !== null && violations.length < MOST_VIOLATIONS) {
      violations.push(`entry ${entry.seq} of ${entry.user_id}: ${found}`);
    }
    chains.set(entry.user_id, { seq: entry.seq, balance: entry.balance_after, hash: entry.hash });
  }
  return { entries: count, accounts: chains.size, violations };
}

function violationOf(entry: ExportedEntry, before: Chain): string | null {
  if (entry.seq !== before.seq + 1) return `it follows on entry ${before.seq}`;
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
