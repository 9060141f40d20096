import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { entriesHead, entryLines, readExport } from "../../src/ledger/export-file.ts";
import { verifyExport } from "../../src/ledger/verify-export.ts";
import { addSeconds } from "../../src/platform/clock.ts";
import type { Db } from "../../src/platform/db.ts";
import { newId } from "../../src/platform/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { ledgerCommands, type World } from "./ledger-commands.ts";
import { createLedgerFixture } from "./ledger-fixture.ts";
import { heldOverage, type Model, modelGrant, modelStanding, newModel } from "./ledger-model.ts";

/** `npm run properties -- --ops 50000` for a long run; PROPERTY_SEED replays the one that a failure prints. */
const OPERATIONS = Number(process.env.PROPERTY_OPS ?? 2_000);
const OPERATIONS_PER_ACCOUNT = 80;
const ACCOUNTS_PER_ROUND = 8;
const TRIAL_SECONDS = 2_000;
const TABLES = "account, bucket, reversal, hold, entry, usage_event, usage_daily, key_spend, crossing";

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

async function startWorld(has_trial: boolean): Promise<{ model: Model; real: World }> {
  await db.query({ text: `truncate ${TABLES}` }); // the audit looks at everything, after every operation
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
  fixture.ledger.onCrossing(async ({ hold_id, kind, percent }) => void told.push(`${hold_id} ${kind} ${percent}`));
  const real = { ...fixture, user_id, key: newId(), holds: [], buckets: buckets.map(({ id }) => id), told, dead: 0 };
  return { model, real };
}

async function expectAgreement(model: Model, { ledger, user_id }: World): Promise<void> {
  expect((await ledger.audit()).violations).toEqual([]);
  const [standing, overage, { buckets }] = await Promise.all([
    ledger.standing(user_id),
    ledger.overage(user_id),
    ledger.buckets(user_id, { include_closed: true, limit: 1_000, after: null }),
  ]);
  expect(standing).toMatchObject(modelStanding(model));
  const { overage_cap: cap_tokens, overage: used_tokens } = model;
  expect(overage).toEqual({ cap_tokens, used_tokens, held_tokens: heldOverage(model) });
  const sizes = ({ id, remaining, held }: { id: string; remaining: number; held: number }) => ({ id, remaining, held });
  expect(buckets.map(sizes)).toEqual(model.buckets.map(sizes));
}

/** The owner's copy of the ledger holds up without the ledger. */
async function expectExport({ ledger, user_id }: World): Promise<void> {
  async function* file() {
    yield entriesHead;
    for await (const part of ledger.allEntries(user_id, {})) yield entryLines(user_id, part);
  }
  expect((await verifyExport(readExport(file()))).violations).toEqual([]);
}

test(
  "whatever happens to an account, in whatever order and however often: the ledger agrees with the model, and after each operation the audit is clean",
  async () => {
    const first_seed = Number(process.env.PROPERTY_SEED ?? Date.now() % 2 ** 31);
    let done = 0;
    const checked = ledgerCommands.map((arbitrary) =>
      arbitrary.map((command): typeof command => ({
        check: command.check,
        toString: () => command.toString(),
        async run(model, real) {
          await command.run(model, real);
          await expectAgreement(model, real);
          done += 1;
        },
      })),
    );
    const story = fc.commands(checked, { maxCommands: OPERATIONS_PER_ACCOUNT, size: "max" });
    const agrees = fc.asyncProperty(story, fc.boolean(), async (steps, has_trial) => {
      const world = await startWorld(has_trial);
      await fc.asyncModelRun(() => world, steps);
      await expectExport(world.real);
    });
    for (let seed = first_seed; done < OPERATIONS; seed += 1) {
      if (seed === first_seed || OPERATIONS > 10_000) console.info(`PROPERTY_SEED=${seed} after ${done} operations`);
      await fc.assert(agrees, { seed, numRuns: ACCOUNTS_PER_ROUND });
    }
    console.info(`${done} operations agreed`);
  },
  OPERATIONS * 1_000,
);
