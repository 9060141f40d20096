import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { entriesHead, entryLines, readExport } from "../../src/account/ledger/export-file.ts";
import type { Entry, EntryFilter, EntryGroup } from "../../src/account/ledger/ledger.types.ts";
import { verifyExport } from "../../src/account/ledger/verify-export.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { addSeconds, monotonicMs } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { KINDS, ledgerCommands, type World } from "./ledger-commands.ts";
import { createLedgerFixture, LEDGER_TABLES } from "./ledger-fixture.ts";
import { heldOverage, type Model, modelGrant, modelStatus, newModel } from "./ledger-model.ts";
import { expectInvariants, readState, type State } from "./ledger-state.ts";

/** `npm run properties -- --ops 50000` for a long run. PROPERTY_SEED replays the seed that a failure prints. */
const OPERATIONS = Number(process.env.PROPERTY_OPS ?? 1_200);
const OPERATIONS_PER_ACCOUNT = 80;
const PRINT_EVERY = 1_000;
/** The whole database is audited and emptied after about this number of operations. */
const AUDITED_EVERY = 500;
const TRIAL_SECONDS = 2_000;

let database: TestDatabase;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

const seen = new Map<string, number>(KINDS.map((kind) => [kind, 0]));

async function startWorld(has_trial: boolean): Promise<{ model: Model; real: World }> {
  const fixture = createLedgerFixture(db);
  const user_id = newId();
  const now = fixture.clock.now();
  const trial = has_trial ? { ends_at: addSeconds(now, TRIAL_SECONDS), tokens: 100 } : null;
  await db.transaction((tx) => fixture.ledger.openAccount(tx, { user_id, trial }));
  const model = newModel(Date.parse(now), trial === null ? null : Date.parse(trial.ends_at));
  const { buckets } = await fixture.ledger.buckets(user_id, { include_closed: true, limit: 10, after: null });
  for (const { id, granted_at, expires_at } of buckets) {
    const times = { granted_at: Date.parse(granted_at), expires_at: Date.parse(expires_at) };
    modelGrant(model, { id, amount: 100, ...times }, false);
  }
  const told: string[] = [];
  fixture.calls.notify = async ({ hold_id, kind, percent, ...of }) => {
    if (of.user_id === user_id) told.push(`${hold_id ?? "nobody"} ${kind} ${percent}`);
  };
  const real = {
    ...fixture,
    user_id,
    key: newId(),
    runs: [null, null, newId(), newId()],
    holds: [],
    buckets: buckets.map(({ id }) => id),
    told,
    dead: 0,
    seen: (kind: string) => void seen.set(kind, (seen.get(kind) ?? 0) + 1),
  };
  return { model, real };
}

/** After each operation the stored rows are consistent and equal to the model. */
async function expectAgreement(model: Model, { user_id }: World, before: State | null): Promise<State> {
  const state = await readState(db, user_id, before);
  expectInvariants(state);
  const { account, buckets } = state;
  expect([account.debt, account.overage, account.overage_cap, account.overage_held]).toEqual([
    model.debt,
    model.overage,
    model.overage_cap,
    heldOverage(model),
  ]);
  // the service may not have closed an expired bucket yet
  const sizes = buckets.map(({ id, remaining, held, expires_at }) => {
    return { id, remaining: Date.parse(expires_at) <= model.now ? held : remaining, held };
  });
  expect(sizes).toEqual(model.buckets.map(({ id, remaining, held }) => ({ id, remaining, held })));
  return state;
}

/** The owner's balance equals the model's, and their export is verified without the ledger. */
async function expectShown(model: Model, { ledger, user_id }: World): Promise<void> {
  expect(await ledger.accountStatus(user_id)).toMatchObject(modelStatus(model));
  const { overage_cap: cap_tokens, overage: used_tokens } = model;
  expect(await ledger.overage(user_id)).toEqual({ cap_tokens, used_tokens, held_tokens: heldOverage(model) });
  const { total_remaining } = await ledger.buckets(user_id, { include_closed: true, limit: 1, after: null });
  expect(total_remaining).toBe(modelStatus(model).posted);
  async function* file() {
    yield entriesHead;
    for await (const part of ledger.allEntries(user_id, {})) yield entryLines(user_id, part);
  }
  expect((await verifyExport(readExport(file()))).violations).toEqual([]);
}

/** All groups of the ledger, page by page, while the ledger goes on. */
async function readGroups({ ledger, user_id, grant }: World, filter: EntryFilter, limit: number) {
  const as_of = await ledger.lastSeq(user_id);
  const groups: EntryGroup[] = [];
  for (;;) {
    const before_seq = groups.at(-1)?.newest.seq ?? null;
    const page = await ledger.entryGroups(user_id, filter, { as_of, before_seq, limit });
    groups.push(...page);
    if (page.length < limit) return groups;
    if (groups.length === limit) await grant(user_id, 5);
  }
}

/** What a group of these entries must say. */
function groupOf(entries: readonly Entry[]): Partial<EntryGroup> {
  const sum = (is: (entry: Entry) => boolean) => entries.filter(is).reduce((total, { amount }) => total + amount, 0);
  return {
    entries: entries.length,
    moved_tokens: sum(({ type }) => type !== "overage" && type !== "absorbed"),
    overage_tokens: 0 - sum(({ type }) => type === "overage"),
    absorbed_tokens: 0 - sum(({ type }) => type === "absorbed"),
    first_at: entries.map(({ created_at }) => created_at).sort()[0] ?? "",
    newest: entries[0] as Entry,
  };
}

/** Of each filter, every matching entry is in one group, whose sums are those of its entries. All groups make up the balance. */
async function expectGroups(world: World): Promise<void> {
  const { ledger, user_id, runs } = world;
  const read = (filter: EntryFilter) => ledger.entries(user_id, filter, { limit: 10_000, before_seq: null });
  const [{ created_at: from } = { created_at: world.clock.now() }] = (await read({})).slice(-7);
  for (const filter of [
    {},
    { type: "usage" },
    { type: "overage" },
    { run_id: runs[2] ?? "" },
    { from },
  ] as EntryFilter[]) {
    const entries = (await read(filter)).sort((one, other) => other.seq - one.seq);
    const parts = [...Map.groupBy(entries, ({ run_id, hold_id, seq }) => run_id ?? hold_id ?? seq).values()];
    const groups = await readGroups(world, filter, 3);
    expect(groups).toEqual(parts.map(groupOf));
    if (filter.type === undefined && filter.run_id === undefined && filter.from === undefined) {
      const moved = groups.reduce((total, { moved_tokens }) => total + moved_tokens, 0);
      expect(moved).toBe(entries[0]?.balance_after ?? 0);
    }
    const call = groups.find(({ newest }) => newest.run_id === null && newest.hold_id !== null)?.newest;
    if (call?.hold_id != null && filter.from === undefined) {
      const of_call = await read({ ...filter, hold_id: call.hold_id });
      expect(of_call.map(({ seq }) => seq)).toEqual(
        entries.flatMap(({ seq, hold_id }) => (hold_id === call.hold_id ? [seq] : [])),
      );
    }
  }
}

async function expectCleanAudit(): Promise<void> {
  expect((await createLedgerFixture(db).ledger.audit()).violations).toEqual([]);
  await db.query({ text: `truncate ${LEDGER_TABLES}` });
}

test(
  "after every operation, in any order and with repeats, the ledger agrees with the model and every invariant holds",
  async () => {
    const first_seed = Number(process.env.PROPERTY_SEED ?? Date.now() % 2 ** 31);
    const started_ms = monotonicMs();
    let done = 0;
    let audited = 0;
    let state: State | null = null;
    const checked = ledgerCommands.map((arbitrary) =>
      arbitrary.map((command): typeof command => ({
        check: command.check,
        toString: () => command.toString(),
        async run(model, real) {
          await command.run(model, real);
          state = await expectAgreement(model, real, state);
          done += 1;
          if (done % PRINT_EVERY > 0) return;
          console.info(`${done} operations in ${Math.round((monotonicMs() - started_ms) / 1000)} s`);
        },
      })),
    );
    const story = fc.commands(checked, { maxCommands: OPERATIONS_PER_ACCOUNT, size: "max" });
    const agrees = fc.asyncProperty(story, fc.boolean(), async (steps, has_trial) => {
      const world = await startWorld(has_trial);
      state = null;
      await fc.asyncModelRun(() => world, steps);
      await expectShown(world.model, world.real);
      await expectGroups(world.real);
    });
    console.info(`PROPERTY_SEED=${first_seed}`);
    for (let seed = first_seed; done < OPERATIONS; seed += 1) {
      await fc.assert(agrees, { seed, numRuns: 1 });
      if (done - audited < AUDITED_EVERY) continue;
      await expectCleanAudit();
      audited = done;
    }
    await expectCleanAudit();
    console.info(`${done} operations agreed: ${[...seen].map(([kind, count]) => `${count} × ${kind}`).join(", ")}`);
    if (done >= 10_000) expect([...seen].filter(([, count]) => count === 0)).toEqual([]);
  },
  OPERATIONS * 1_000,
);
