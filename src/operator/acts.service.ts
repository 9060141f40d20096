import { createHash } from "node:crypto";
import { csvLine, defused } from "../account/ledger/csv.ts";
import type { Operator } from "../api/contract/caller.ts";
import type { ActRecord } from "../api/contract/operators.ts";
import type { Db, Tx } from "../platform/db/db.ts";
import type { Clock } from "../platform/lib/clock.ts";
import { newId } from "../platform/lib/ids.ts";
import { type ActFilter, type ActRow, createActsStore } from "./acts.store.ts";

/** Rows per query of an export. */
const EXPORT_ROWS = 1_000;

/** Who acts, and by which request. */
export interface Actor extends Pick<Operator, "id" | "name"> {
  request_id: string;
}

/** A state that an act changed. `email` is kept apart, so that erasing the user can delete it. Never put a secret here. */
type State = Record<string, unknown> & { email?: string | null };

/** What an operator did. `user_id`: the user whom it concerns. */
export interface Act {
  what: ActRecord["what"];
  target: { type: string; id: string | null };
  user_id?: string;
  before?: State | null;
  after?: State | null;
  reason?: string | undefined;
}

/** The log of operators' acts: append-only and hash-chained. Owns `operator_act`. */
export function createActs({ db, clock }: { db: Db; clock: Clock }) {
  const store = createActsStore(db);
  return {
    /** Writes the act in the transaction of the act. Call it last: it locks the end of the chain. */
    async record(tx: Tx, actor: Actor, act: Act): Promise<void> {
      const { user_id = null, before = null, after = null, reason = null } = act;
      const salt = newId();
      const row = {
        id: newId(),
        operator_id: actor.id,
        operator_name: actor.name,
        what: act.what,
        target_type: act.target.type,
        target_id: act.target.id,
        user_id,
        before: storedText(before, salt),
        after: storedText(after, salt),
        reason: user_id === null || reason === null ? reason : `${HASHED}${computeHash(salt, reason)}`,
        request_id: actor.request_id,
        created_at: clock.now(),
      };
      const email_before = before?.email ?? null;
      const email_after = after?.email ?? null;
      const has_texts = user_id !== null && (email_before ?? email_after ?? reason) !== null;
      await store.append(tx, row, has_texts ? { user_id, salt, email_before, email_after, reason } : null);
    },
    /** Newest first. */
    async list(filter: ActFilter, page: { limit: number; before_seq: number | null }): Promise<ActRecord[]> {
      const rows = await store.select(filter, { order: "desc", beyond_seq: page.before_seq, limit: page.limit });
      return rows.map(actRecord);
    },
    /** All acts, oldest first, in pages. */
    async *all(filter: ActFilter): AsyncGenerator<ActRecord[]> {
      for (let beyond_seq: number | null = null; ; ) {
        const rows: ActRow[] = await store.select(filter, { order: "asc", beyond_seq, limit: EXPORT_ROWS });
        if (rows.length > 0) yield rows.map(actRecord);
        if (rows.length < EXPORT_ROWS) return;
        beyond_seq = rows.at(-1)?.seq ?? beyond_seq;
      }
    },
    /** Deletes the addresses of an erased user and the reasons of acts about them. The hashes stay, so the chain stays valid. */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      await store.deleteTexts(tx, user_id);
    },
  };
}

export type Acts = ReturnType<typeof createActs>;

/** The JSON that the chain covers: an address is there as its salted hash. */
function storedText(state: State | null, salt: string): string | null {
  if (state === null) return null;
  const { email, ...rest } = state;
  if (email === undefined || email === null) return JSON.stringify(rest);
  return JSON.stringify({ ...rest, email_sha256: computeHash(salt, email) });
}

/** Marks the reason of an act about a user in the chain: it is there as its salted hash. */
const HASHED = "sha256:";
const computeHash = (salt: string, text: string) => createHash("sha256").update(`${salt}${text}`).digest("hex");

/** An act as the API shows it: with its addresses and reason while the user exists, otherwise with null. */
function actRecord(row: ActRow): ActRecord {
  const { operator_id, operator_name, target_type, target_id, email_before, email_after, created_at, ...rest } = row;
  const { kept_reason, reason, operator_user_id, operator_email, ...act } = rest;
  const is_hashed = row.user_id !== null && reason?.startsWith(HASHED) === true;
  return {
    ...act,
    reason: is_hashed ? kept_reason : reason,
    what: act.what as ActRecord["what"],
    who:
      operator_user_id === null
        ? { key_id: operator_id, user_id: null, name: operator_name }
        : { key_id: null, user_id: operator_user_id, name: operator_email },
    target: { type: target_type, id: target_id },
    before: shownState(row.before, email_before),
    after: shownState(row.after, email_after),
    at: created_at,
  };
}

function shownState(state: Record<string, unknown> | null, email: string | null) {
  if (state === null || !("email_sha256" in state)) return state;
  const { email_sha256: _hash, ...rest } = state;
  return { email, ...rest };
}

const COLUMNS = ["seq", "id", "at", "key_id", "operator", "what", "target_type", "target_id", "user_id"] as const;

/** The header line of an export of acts. */
export const actsHead = csvLine([
  ...COLUMNS,
  "before",
  "after",
  "reason",
  "request_id",
  "hash",
  "user_email",
  "operator_user_id",
]);

/** Acts as lines of CSV. */
export function actLines(acts: readonly ActRecord[]): string {
  const cell = (value: string | number | null) => (typeof value === "string" ? defused(value) : value);
  const lines = acts.map(({ who, target, before, after, ...act }) => {
    const states = [before, after].map((state) => (state === null ? null : JSON.stringify(state)));
    const about = [act.seq, act.id, act.at, who.key_id, who.name, act.what, target.type, target.id, act.user_id];
    const last = [act.reason, act.request_id, act.hash, act.user_email, who.user_id];
    return csvLine([...about, ...states, ...last].map(cell));
  });
  return lines.join("");
}
