import { createLedger } from "../src/account/ledger/ledger.service.ts";
import { applyOperations, type Outcome as LedgerOutcome, type Operation } from "../src/account/ledger/ledger.store.ts";
import type { HoldRequest, SettleRequest } from "../src/account/ledger/ledger.types.ts";
import type { Db } from "../src/platform/db/db.ts";
import { openDb } from "../src/platform/db/open-db.ts";
import { addMonths, createSystemClock } from "../src/platform/lib/clock.ts";
import { newId } from "../src/platform/lib/ids.ts";
import { createLog } from "../src/platform/telemetry/log.ts";
import { startPostgres } from "../test/support/postgres-server.ts";
import { createPgBench } from "./peers/pgbench.ts";
import type { Effort, Outcome, Ratio } from "./support/outcome.ts";
import { createPlace } from "./support/service.ts";
import { inTurn, medianOf } from "./support/statistics.ts";

const MANY_ACCOUNTS = 1_000;
const CALLERS = [32, 256] as const;
/** Of the API key that the charges with a budget are made with: never reached. */
const KEY_BUDGET_TOKENS = 1_000_000_000_000;
const PGBENCH_CLIENTS = [1, 8, 32] as const;
const LOAD_SECONDS = 1.5;
const PGBENCH_SECONDS = 2;
const HELD_TOKENS = 5_000;
const COST_TOKENS = 137;
const PLENTY_TOKENS = 1_000_000_000_000;
const ACCOUNTS = ["one account", "1,000 accounts"] as const;

/** One hold or settle. */
type Commit = (operation: Operation) => Promise<LedgerOutcome>;

/** A ledger under test: with group commit, and with one transaction per operation. */
interface Ledger {
  grouped: Commit;
  single: Commit;
  users: readonly string[];
  close(): Promise<void>;
}

/** Hold and settle pairs per second through the ledger, beside the same pairs one by one and beside pgbench. */
export async function charges(effort: Effort): Promise<Outcome> {
  const server = await startPostgres();
  try {
    const on_postgres = await openLedger(await createPlace(server), effort);
    const embedded = await openLedger(await createPlace(null), effort);
    const pgbench = await createPgBench(server);
    try {
      const contenders = new Map<string, () => Promise<number>>();
      for (const [storage, ledger] of [["PostgreSQL", on_postgres] as const, ["embedded", embedded] as const]) {
        for (const mode of ["grouped", "single"] as const) {
          for (const [index, accounts] of ACCOUNTS.entries()) {
            for (const callers of CALLERS) {
              const users = index === 0 ? ledger.users.slice(0, 1) : ledger.users;
              const seconds = LOAD_SECONDS * effort.scale;
              contenders.set(keyOf(storage, mode, accounts, callers), () =>
                pairs(ledger[mode], { users, callers, seconds }),
              );
            }
          }
        }
      }
      for (const [index, accounts] of ACCOUNTS.entries()) {
        for (const callers of CALLERS) {
          const users = index === 0 ? on_postgres.users.slice(0, 1) : on_postgres.users;
          const load = { users, callers, seconds: LOAD_SECONDS * effort.scale, with_budget: true };
          contenders.set(keyOf("PostgreSQL", "budget", accounts, callers), () => pairs(on_postgres.grouped, load));
        }
      }
      const found = await inTurn(contenders, effort.rounds);
      const plain = new Map<string, () => Promise<number>>();
      for (const [index, accounts] of ACCOUNTS.entries()) {
        for (const clients of PGBENCH_CLIENTS) {
          const seconds = Math.max(1, PGBENCH_SECONDS * effort.scale);
          plain.set(`${accounts} ${clients}`, () => pgbench.charges(index === 0 ? "one" : "many", clients, seconds));
        }
      }
      return outcomeOf(found, await inTurn(plain, effort.rounds));
    } finally {
      pgbench.drop();
      await embedded.close();
      await on_postgres.close();
    }
  } finally {
    await server.stop();
  }
}

function keyOf(storage: string, mode: string, accounts: string, callers: number): string {
  return `${storage} ${mode} ${accounts} ${callers}`;
}

async function openLedger(place: Awaited<ReturnType<typeof createPlace>>, effort: Effort): Promise<Ledger> {
  const { database_url, folder } = place;
  const db = await openDb({ database_url, data_dir: folder, log: createLog("silent") });
  const clock = createSystemClock();
  const ledger = createLedger({ db, clock });
  const users = await openAccounts(db, effort.scale === 1 ? MANY_ACCOUNTS : MANY_ACCOUNTS / 10);
  return {
    users,
    grouped: (operation) => (operation.kind === "hold" ? ledger.hold(operation) : ledger.settle(operation as never)),
    async single(operation) {
      const [outcome] = await applyOperations(db, [operation], clock.now());
      if (outcome === undefined) throw new Error("an operation without outcome");
      return outcome;
    },
    async close() {
      await db.close();
      await place.drop();
    },
  };
}

async function openAccounts(db: Db, count: number): Promise<string[]> {
  const clock = createSystemClock();
  const ledger = createLedger({ db, clock });
  const users = Array.from({ length: count }, newId);
  const granted_at = clock.now();
  const grant = { amount_tokens: PLENTY_TOKENS, source: "top_up" as const, granted_at, note: null };
  await db.transaction(async (tx) => {
    for (const user_id of users) {
      await ledger.openAccount(tx, { user_id, trial: null });
      await ledger.grant({ user_id, ...grant, expires_at: addMonths(granted_at, 12) }, tx);
    }
  });
  return users;
}

/** Runs `callers` that hold and settle in a loop. Returns pairs per second. Fails when any operation fails. */
async function pairs(
  commit: Commit,
  load: { users: readonly string[]; callers: number; seconds: number; with_budget?: boolean },
): Promise<number> {
  const from_ms = performance.now();
  const to_ms = from_ms + load.seconds * 1000;
  let done = 0;
  let turn = 0;
  const caller = async () => {
    while (performance.now() < to_ms) {
      turn += 1;
      const user_id = load.users[turn % load.users.length] ?? "";
      const hold_id = newId();
      // the user's id stands for the id of a key: each user has one
      const key = load.with_budget === true ? { api_key_id: user_id, key_budget_tokens: KEY_BUDGET_TOKENS } : {};
      expectStatus(await commit({ ...holdOf(user_id, hold_id), ...key }), "held");
      expectStatus(await commit({ ...settleOf(user_id, hold_id), ...key }), "settled");
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: load.callers }, caller));
  return (done * 1000) / (performance.now() - from_ms);
}

function expectStatus(outcome: LedgerOutcome, status: string): void {
  if (outcome.status !== status) throw new Error(`expected ${status}: ${JSON.stringify(outcome)}`);
}

const LABELS = { request_id: "bench", api_key_id: null, agent_id: null, run_id: null };

function holdOf(user_id: string, hold_id: string): Operation {
  const amounts = { amount_tokens: HELD_TOKENS, minimum_tokens: HELD_TOKENS, key_budget_tokens: null };
  return { kind: "hold", user_id, hold_id, ...LABELS, ...amounts } satisfies { kind: "hold" } & HoldRequest;
}

function settleOf(user_id: string, hold_id: string): Operation {
  const parts = { cached_input_tokens: 0, cache_write_tokens: 0, cache_write_1h_tokens: 0 };
  const costs = { cost_tokens: COST_TOKENS, upstream_cost_micro_usd: null };
  const counts = { input_tokens: 40, output_tokens: 64, ...parts, ...costs };
  const rates = { model: "bench/instant", input_rate_micro: 333_333, output_rate_micro: 1_000_001 };
  const settle = { kind: "settle" as const, user_id, hold_id, ...LABELS, ...counts, ...rates };
  return settle satisfies { kind: "settle" } & SettleRequest;
}

function outcomeOf(found: Map<string, number[]>, plain: Map<string, number[]>): Outcome {
  const at = (storage: string, mode: string, accounts: string, callers: number) =>
    medianOf(found.get(keyOf(storage, mode, accounts, callers)), Number);
  const pgbenchAt = (accounts: string, clients: number) => medianOf(plain.get(`${accounts} ${clients}`), Number);
  const columns = ACCOUNTS.flatMap((accounts) => CALLERS.map((callers) => `${accounts}, ${callers} callers`));
  const row = (name: string, storage: string, mode: string) => ({
    name,
    values: ACCOUNTS.flatMap((accounts) => CALLERS.map((callers) => at(storage, mode, accounts, callers))),
  });
  const [one, many] = ACCOUNTS;
  const ratio = (storage: string, accounts: string, callers: number, goal: string): Ratio => ({
    of: `${storage}, ${accounts}, ${callers} callers`,
    to: "the same pairs, one transaction an operation",
    value: at(storage, "grouped", accounts, callers) / at(storage, "single", accounts, callers),
    goal,
  });
  return {
    name: "charges",
    title: "Charges",
    tables: [
      {
        caption: "Hold and settle pairs a second",
        columns,
        rows: [
          row("Purser's ledger, PostgreSQL", "PostgreSQL", "grouped"),
          row("Purser's ledger with key budgets, PostgreSQL", "PostgreSQL", "budget"),
          row("one transaction each, PostgreSQL", "PostgreSQL", "single"),
          row("Purser's ledger, embedded", "embedded", "grouped"),
          row("one transaction each, embedded", "embedded", "single"),
        ],
        drawn: [0, 4],
      },
      {
        caption: "pgbench, plain charges a second, one transaction each",
        columns: PGBENCH_CLIENTS.map((clients) => (clients === 1 ? "1 client" : `${clients} clients`)),
        rows: ACCOUNTS.map((accounts) => ({
          name: accounts === one ? accounts : "10,000 accounts",
          values: PGBENCH_CLIENTS.map((clients) => pgbenchAt(accounts, clients)),
        })),
      },
    ],
    ratios: [
      ...CALLERS.map((callers) => ratio("PostgreSQL", one, callers, "≥ 10")),
      ...CALLERS.map((callers) => ratio("embedded", one, callers, "")),
      {
        of: "PostgreSQL, 1,000 accounts, 256 callers, pairs",
        to: "pgbench's charges on many accounts, 32 clients",
        value: at("PostgreSQL", "grouped", many, 256) / pgbenchAt(many, 32),
        goal: "≥ 1",
      },
    ],
  };
}
