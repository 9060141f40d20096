import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addSeconds, instantOf } from "../../src/platform/clock.ts";
import type { Db } from "../../src/platform/db.ts";
import { newId } from "../../src/platform/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createLedgerFixture, holdOf, settleOf } from "./ledger-fixture.ts";
import {
  type Model,
  modelGrant,
  modelHold,
  modelRelease,
  modelSettle,
  modelStanding,
  newModel,
} from "./ledger-model.ts";

/** PROPERTY_RUNS=200 for a long run; PROPERTY_SEED replays the one that a failure prints. */
const RUNS = Number(process.env.PROPERTY_RUNS ?? 12);
const STEPS = 30;
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

const amount = fc.integer({ min: 0, max: 120 });
const which = fc.nat({ max: 5 });
const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("grant" as const),
      amount: fc.integer({ min: 1, max: 200 }),
      lasting_s: fc.integer({ min: 1, max: 900 }),
      paid: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("hold" as const),
      amount,
      slack: amount,
      budget: fc.option(fc.nat({ max: 600 })),
    }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("settle" as const), which, cost: fc.nat({ max: 200 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("settle the hold exactly" as const), which }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("settle without a hold" as const), cost: fc.nat({ max: 100 }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("release" as const), which }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("pass" as const), seconds: fc.integer({ min: 1, max: 400 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("sweep" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("overage" as const), cap: fc.option(fc.nat({ max: 300 })) }) },
);
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

async function startWorld(has_trial: boolean) {
  const fixture = createLedgerFixture(db);
  const user_id = newId();
  const now = fixture.clock.now();
  const trial = has_trial ? { ends_at: addSeconds(now, TRIAL_SECONDS), tokens: 100 } : null;
  await db.transaction((tx) => fixture.ledger.openAccount(tx, { user_id, trial }));
  const model = newModel(Date.parse(now), trial === null ? null : Date.parse(trial.ends_at));
  const { buckets } = await fixture.ledger.buckets(user_id, { include_closed: true, limit: 10, after: null });
  for (const { id, granted_at, expires_at } of buckets) {
    modelGrant(
      model,
      { id, remaining: 100, held: 0, granted_at: Date.parse(granted_at), expires_at: Date.parse(expires_at) },
      false,
    );
  }
  return { ...fixture, user_id, model, key: newId(), holds: [] as { hold_id: string; held: number }[] };
}
type World = Awaited<ReturnType<typeof startWorld>>;

/** Does one step to both, and checks that both say the same of it. */
async function take(world: World, { ledger, model, user_id, key }: World, action: Step): Promise<void> {
  const of_key = { api_key_id: key };
  const settle = async (hold_id: string, cost: number) => {
    const outcome = await ledger.settle(settleOf(user_id, hold_id, cost, of_key));
    expect(outcome).toEqual({ status: "settled", ...modelSettle(model, hold_id, cost) });
  };
  const held = "which" in action ? world.holds[world.holds.length - 1 - action.which] : undefined;
  switch (action.do) {
    case "grant":
      return grant(world, action);
    case "hold": {
      const hold_id = newId();
      const minimum = Math.max(Math.min(1, action.amount), action.amount - action.slack);
      const more = { ...of_key, hold_id, minimum_tokens: minimum, key_budget_tokens: action.budget };
      const outcome = await ledger.hold(holdOf(user_id, action.amount, more));
      expect(outcome).toMatchObject(
        modelHold(model, { hold_id, amount: action.amount, minimum, budget: action.budget }),
      );
      if (outcome.status === "held") world.holds.push({ hold_id, held: outcome.held_tokens });
      return;
    }
    case "settle":
      return held && settle(held.hold_id, action.cost);
    case "settle the hold exactly":
      return held && settle(held.hold_id, held.held);
    case "settle without a hold":
      return settle(newId(), action.cost);
    case "release":
      if (held !== undefined) await ledger.release({ user_id, hold_id: held.hold_id });
      if (held !== undefined) modelRelease(model, held.hold_id);
      return;
    case "pass":
      world.pass(action.seconds);
      model.now = Date.parse(world.clock.now());
      return;
    case "sweep":
      return ledger.sweep();
    case "overage":
      return allowOverage(model, user_id, action.cap);
  }
}

async function grant(world: World, action: Extract<Step, { do: "grant" }>): Promise<void> {
  const granted_at = world.clock.now();
  const expires_at = addSeconds(granted_at, action.lasting_s);
  const source = action.paid ? "top_up" : "bonus";
  const request = {
    user_id: world.user_id,
    amount_tokens: action.amount,
    source,
    granted_at,
    expires_at,
    note: null,
  } as const;
  const { id } = await world.ledger.grant(request);
  const times = { granted_at: Date.parse(granted_at), expires_at: Date.parse(expires_at) };
  modelGrant(world.model, { id, remaining: action.amount, held: 0, ...times }, action.paid);
}

/** The cap is another room's to set; it is never set below what is used and held. */
async function allowOverage(model: Model, user_id: string, cap: number | null): Promise<void> {
  const used = model.overage + [...model.holds.values()].reduce((total, hold) => total + hold.overage, 0);
  if (cap === null && used > 0) return;
  model.overage_cap = cap === null ? null : used + cap;
  await db.query({
    text: "update account set overage_cap = $2 where user_id = $1",
    values: [user_id, model.overage_cap],
  });
}

test("whatever is granted, held, settled, let go, expired and swept: the ledger agrees with the model and the audit is clean", async () => {
  const seed = Number(process.env.PROPERTY_SEED ?? Date.now() % 2 ** 31);
  console.info(`PROPERTY_SEED=${seed}`);
  const story = fc.array(step, { minLength: STEPS, maxLength: STEPS });
  await fc.assert(
    fc.asyncProperty(story, fc.boolean(), async (steps, has_trial) => {
      const world = await startWorld(has_trial);
      for (const action of steps) {
        await take(world, world, action);
        expect(await world.ledger.standing(world.user_id)).toMatchObject(modelStanding(world.model));
        expect((await world.ledger.audit()).violations).toEqual([]);
      }
      const { total_remaining } = await world.ledger.buckets(world.user_id, {
        include_closed: false,
        limit: 1,
        after: null,
      });
      expect(total_remaining).toBe(modelStanding(world.model).posted);
      expect(instantOf(world.model.now)).toBe(world.clock.now());
    }),
    { seed, numRuns: RUNS, endOnFailure: RUNS > 50 },
  );
}, 600_000);
