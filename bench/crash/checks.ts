import { type BenchService, type BenchUser, PLENTY_TOKENS } from "../support/service.ts";
import type { Seen } from "./callers.ts";
import { costOf } from "./upstream.ts";

const PAGE = 100;
/** No hold of these calls is larger: 64 tokens of output and a body under 600 bytes. */
const MOST_HELD_TOKENS = 170;

interface Entry {
  seq: number;
  type: string;
  amount: number;
  balance_after: number;
  request_id: string | null;
}

interface Profile {
  balance: { posted: number; held: number; available: number; debt: number };
}

/** A user's charges as the service tells them, read on from where the last check ended. */
interface Book {
  last_seq: number;
  charged: Map<string, number>;
}

/** Compares, after a crash, what callers were told with what the service has written; keeps its place in each ledger. */
export function createChecks(users: readonly BenchUser[]) {
  const books = new Map<string, Book>(users.map(({ id }) => [id, { last_seq: 0, charged: new Map() }]));

  async function checkUser(service: BenchService, user: BenchUser, seen: Seen): Promise<string[]> {
    const book = books.get(user.id) ?? { last_seq: 0, charged: new Map() };
    const wrong = await readOn(service, user, book);
    for (const [request_id, cost] of seen.acknowledged) {
      if (book.charged.get(request_id) !== cost) {
        wrong.push(`${request_id} was told ${cost} and charged ${book.charged.get(request_id) ?? "nothing"}`);
      }
    }
    let total = 0;
    for (const [request_id, charged] of book.charged) {
      total += charged;
      if (charged !== costOf(request_id)) wrong.push(`${request_id} costs ${costOf(request_id)}, charged ${charged}`);
      if (!seen.acknowledged.has(request_id) && !seen.unanswered.has(request_id)) {
        wrong.push(`${request_id} was charged and never sent`);
      }
    }
    const { balance } = await service.call<Profile>("GET", "/api/v1/users/me", { key: user.key });
    const expected = PLENTY_TOKENS - total;
    if (balance.posted !== expected || balance.debt !== 0) {
      wrong.push(`the balance is ${JSON.stringify(balance)}, the entries leave ${expected}`);
    }
    if (balance.available !== balance.posted - balance.held)
      wrong.push(`it does not add up: ${JSON.stringify(balance)}`);
    // Only calls that died may still hold tokens, and each no more than its worst case.
    if (balance.held > seen.unanswered.size * MOST_HELD_TOKENS) {
      wrong.push(`${balance.held} are held, with ${seen.unanswered.size} calls that died`);
    }
    return [...wrong, ...seen.surprises].map((problem) => `user ${user.id}: ${problem}`);
  }

  return {
    /** All violations; call it when no request is in flight. */
    async violations(service: BenchService, seen: ReadonlyMap<string, Seen>): Promise<string[]> {
      const found: string[] = [];
      for (const user of users) {
        const mine = seen.get(user.id);
        if (mine !== undefined) found.push(...(await checkUser(service, user, mine)));
      }
      const audit = await service.call<{ ok: boolean; violations: unknown[] }>("GET", "/api/v1/admin/audit");
      if (!audit.ok) found.push(`the audit found ${JSON.stringify(audit.violations.slice(0, 10))}`);
      return found;
    },
    /** Tokens that open holds pin, of all users. */
    async held(service: BenchService): Promise<number> {
      let held = 0;
      for (const { key } of users)
        held += (await service.call<Profile>("GET", "/api/v1/users/me", { key })).balance.held;
      return held;
    },
  };
}

/** Reads the entries since the last check, oldest first, into the book; problems in their order and sums. */
async function readOn(service: BenchService, user: BenchUser, book: Book): Promise<string[]> {
  const fresh: Entry[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const query: string = `limit=${PAGE}${cursor === "" ? "" : `&cursor=${cursor}`}`;
    const page: { transactions: Entry[]; next_cursor: string | null } = await service.call(
      "GET",
      `/api/v1/users/me/transactions?${query}`,
      { key: user.key },
    );
    const unread = page.transactions.filter(({ seq }) => seq > book.last_seq);
    fresh.push(...unread);
    cursor = unread.length === PAGE ? page.next_cursor : null;
  }
  const wrong: string[] = [];
  for (const entry of fresh.reverse()) {
    book.last_seq += 1;
    if (entry.seq !== book.last_seq) wrong.push(`entry ${entry.seq} stands where ${book.last_seq} should`);
    if (entry.type === "grant") continue;
    if (entry.type !== "usage") wrong.push(`an entry of the type ${entry.type}`);
    const request_id = entry.request_id ?? "none";
    book.charged.set(request_id, (book.charged.get(request_id) ?? 0) - entry.amount);
  }
  return wrong;
}
