import fc from "fast-check";
import { expect } from "vitest";
import type { GrantRequest, HoldRequest, SettleRequest } from "../../src/ledger/ledger.types.ts";
import { addSeconds, instantOf } from "../../src/platform/clock.ts";
import { newId } from "../../src/platform/ids.ts";
import { type createLedgerFixture, holdOf, settleOf } from "./ledger-fixture.ts";
import * as m from "./ledger-model.ts";

/** The real ledger, and what the commands must remember of what they asked it. */
export interface World extends ReturnType<typeof createLedgerFixture> {
  user_id: string;
  key: string;
  /** every hold that was ever asked for or settled: operations come again, late and out of order */
  holds: Asked[];
  buckets: string[];
  told: string[];
  dead: number;
}

interface Asked {
  hold_id: string;
  amount: number;
  minimum: number;
  budget: number | null;
}

type Ledger = fc.AsyncCommand<m.Model, World>;
type Run = (model: m.Model, world: World) => Promise<void>;

/** A command that can always be run; `said` is what a failure prints of it. */
function command(said: string, run: Run): Ledger {
  return { check: () => true, run, toString: () => said };
}

const commands = <Value extends object>(name: string, values: fc.Arbitrary<Value>, run: (value: Value) => Run) =>
  values.map((value) => command(`${name} ${JSON.stringify(value)}`, run(value)));

const recent = <Item>(items: Item[], ago: number): Item | undefined => items[items.length - 1 - ago];
const amount = fc.integer({ min: 0, max: 120 });
const ago = fc.nat({ max: 6 });
const asking = fc.record({ amount, slack: amount, budget: fc.option(fc.nat({ max: 900 })) });

// Operations that are asked for together are done in that order: the model does them when they are asked for.

async function hold(model: m.Model, world: World, asked: Asked): Promise<void> {
  const { hold_id, minimum, budget } = asked;
  // what was settled is not held again; the answer is what was held for it then
  const expected = model.charges.has(hold_id) ? { status: "held", hold_id } : m.modelHold(model, asked);
  const more: Partial<HoldRequest> = { hold_id, minimum_tokens: minimum, key_budget_tokens: budget };
  const outcome = await world.ledger.hold(holdOf(world.user_id, asked.amount, { ...more, api_key_id: world.key }));
  expect(outcome).toMatchObject(expected);
}

async function settle(model: m.Model, world: World, hold_id: string, cost: number): Promise<void> {
  const expected = { status: "settled", ...m.modelSettle(model, hold_id, cost) };
  const request: Partial<SettleRequest> = { api_key_id: world.key };
  expect(await world.ledger.settle(settleOf(world.user_id, hold_id, cost, request))).toEqual(expected);
}

async function release(model: m.Model, world: World, hold_id: string): Promise<void> {
  m.modelRelease(model, hold_id);
  await world.ledger.release({ user_id: world.user_id, hold_id });
}

function newHold(world: World, { amount, slack, budget }: { amount: number; slack: number; budget: number | null }) {
  const minimum = Math.max(Math.min(1, amount), amount - slack);
  const asked = { hold_id: newId(), amount, minimum, budget };
  world.holds.push(asked);
  return asked;
}

/** A subscription's period, a top-up or a bonus: once for each key. */
async function grant(
  model: m.Model,
  world: World,
  asked: { amount: number; lasting_s: number; source: GrantRequest["source"]; key: number | null },
): Promise<void> {
  const granted_at = world.clock.now();
  const expires_at = addSeconds(granted_at, asked.lasting_s);
  const { amount, source } = asked;
  const grant_key = asked.key === null ? {} : { grant_key: `payment ${asked.key}` };
  const request = { user_id: world.user_id, amount_tokens: amount, source, granted_at, expires_at, note: null };
  const { id } = await world.ledger.grant({ ...request, ...grant_key });
  const known = asked.key === null ? undefined : model.grants.get(`payment ${asked.key}`);
  if (known !== undefined) return expect(id).toBe(known.id);
  const times = { granted_at: Date.parse(granted_at), expires_at: Date.parse(expires_at) };
  const bucket = m.modelGrant(model, { id, amount, ...times }, source !== "bonus");
  if (asked.key !== null) model.grants.set(`payment ${asked.key}`, bucket);
  world.buckets.push(id);
}

/** To the next instant at which a bucket expires, a millisecond before it, or one after. */
function passTo(model: m.Model, world: World, offset_ms: number): void {
  const next = Math.min(...model.buckets.map((bucket) => bucket.expires_at).filter((at) => at > model.now));
  if (!Number.isFinite(next) || next + offset_ms < model.now) return;
  world.clock.put(instantOf(next + offset_ms));
  m.modelPass(model, next + offset_ms);
}

const reversing = fc.record({ ago, amount: fc.integer({ min: 1, max: 250 }), key: fc.nat({ max: 40 }) });

async function reverse(
  model: m.Model,
  world: World,
  how: "clawBack" | "reinstate",
  asked: { ago: number; amount: number; key: number },
): Promise<void> {
  const bucket_id = recent(world.buckets, asked.ago);
  const bucket = model.buckets.find(({ id }) => id === bucket_id);
  if (bucket_id === undefined || bucket === undefined) return;
  const key = `event ${asked.key}`;
  const request = { user_id: world.user_id, bucket_id, amount_tokens: asked.amount, reason: how, key };
  const outcome = await world.ledger[how](request);
  const reverseModel = how === "clawBack" ? m.modelClawBack : m.modelReinstate;
  expect(outcome).toEqual(reverseModel(model, bucket, asked.amount, key));
}

/** A stream's second: what it has come to, or that it lives. */
async function progress(model: m.Model, world: World, hold_id: string, cost: number | null): Promise<void> {
  const { user_id, key } = world;
  const charge = cost === null ? null : settleOf(user_id, hold_id, cost, { api_key_id: key });
  await world.ledger.progress([{ user_id, hold_id, charge }]);
  const open = model.holds.get(hold_id);
  if (open !== undefined && !open.dead && cost !== null) open.progress = cost;
}

/** The call's process died long ago. Holds die in the order in which they were made dead. */
async function die(model: m.Model, world: World, hold_id: string): Promise<void> {
  const open = model.holds.get(hold_id);
  if (open === undefined || open.dead) return;
  open.dead = true;
  model.holds.delete(hold_id);
  model.holds.set(hold_id, open);
  world.dead += 1;
  await world.db.query({
    text: `update hold set expires_at = clock_timestamp() - interval '1 day' + make_interval(secs => $3)
      where user_id = $1 and id = $2`,
    values: [world.user_id, hold_id, world.dead],
  });
}

async function sweep(model: m.Model, world: World): Promise<void> {
  await world.ledger.sweep();
  m.modelSweep(model);
  expect(world.told.toSorted()).toEqual(model.crossings.toSorted());
}

async function closeOverage(model: m.Model, world: World, unit: number): Promise<void> {
  const carried_tokens = model.overage % unit;
  const closed = await world.ledger.closeOveragePeriod({ user_id: world.user_id, carried_tokens });
  expect(closed).toEqual({ used_tokens: model.overage });
  model.overage = carried_tokens;
}

const onHold = (name: string, run: (model: m.Model, world: World, asked: Asked) => Promise<void>) =>
  commands(name, fc.record({ ago }), (value) => async (model, world) => {
    const asked = recent(world.holds, value.ago);
    if (asked !== undefined) await run(model, world, asked);
  });

const settling = commands("settle", fc.record({ ago, cost: fc.nat({ max: 200 }) }), (value) => async (model, world) => {
  const asked = recent(world.holds, value.ago);
  if (asked !== undefined) await settle(model, world, asked.hold_id, value.cost);
});

const holding = commands("hold", asking, (value) => (model, world) => hold(model, world, newHold(world, value)));

/** Operations that are asked for at once, and so go into one batch, are done in their order. */
const together = fc
  .array(
    fc.oneof(
      holding,
      settling,
      onHold("release", (model, world, { hold_id }) => release(model, world, hold_id)),
    ),
    {
      minLength: 2,
      maxLength: 5,
    },
  )
  .map((parts) =>
    command(`together [${parts.join(", ")}]`, async (model, world) => {
      await Promise.all(parts.map((part) => part.run(model, world)));
    }),
  );

/** Everything that happens to an account, each kind as often as its weight says. */
export const ledgerCommands: fc.Arbitrary<Ledger>[] = [
  ...Array<fc.Arbitrary<Ledger>>(5).fill(holding),
  ...Array<fc.Arbitrary<Ledger>>(4).fill(settling),
  onHold("settle exactly", (model, world, { hold_id }) =>
    settle(model, world, hold_id, model.holds.get(hold_id)?.held ?? 7),
  ),
  commands("settle without a hold", fc.record({ cost: fc.nat({ max: 90 }) }), ({ cost }) => (model, world) => {
    return settle(model, world, newHold(world, { amount: 0, slack: 0, budget: null }).hold_id, cost);
  }),
  onHold("release", (model, world, { hold_id }) => release(model, world, hold_id)),
  onHold("hold again", hold),
  together,
  ...Array<fc.Arbitrary<Ledger>>(3).fill(
    commands(
      "grant",
      fc.record({
        amount: fc.integer({ min: 1, max: 250 }),
        lasting_s: fc.integer({ min: 1, max: 900 }),
        source: fc.constantFrom("subscription", "top_up", "bonus"),
        key: fc.option(fc.nat({ max: 12 })),
      }),
      (value) => (model, world) => grant(model, world, value),
    ),
  ),
  ...Array<fc.Arbitrary<Ledger>>(2).fill(
    commands(
      "pass",
      fc.record({ seconds: fc.integer({ min: 1, max: 300 }) }),
      ({ seconds }) =>
        async (model, world) => {
          world.pass(seconds);
          m.modelPass(model, Date.parse(world.clock.now()));
        },
    ),
  ),
  commands(
    "pass to an expiry",
    fc.record({ offset_ms: fc.constantFrom(-1, 0, 1) }),
    (value) => async (model, world) => passTo(model, world, value.offset_ms),
  ),
  commands("progress", fc.record({ ago, cost: fc.option(fc.nat({ max: 150 })) }), (value) => async (model, world) => {
    const asked = recent(world.holds, value.ago);
    if (asked !== undefined) await progress(model, world, asked.hold_id, value.cost);
  }),
  onHold("die", (model, world, { hold_id }) => die(model, world, hold_id)),
  ...Array<fc.Arbitrary<Ledger>>(2).fill(fc.constant(command("sweep", sweep))),
  commands("overage", fc.record({ cap: fc.option(fc.nat({ max: 300 })) }), ({ cap }) => async (model, world) => {
    await world.ledger.setOverage({ user_id: world.user_id, cap_tokens: cap });
    model.overage_cap = cap;
  }),
  commands(
    "close overage",
    fc.record({ unit: fc.integer({ min: 1, max: 60 }) }),
    ({ unit }) =>
      (model, world) =>
        closeOverage(model, world, unit),
  ),
  commands("claw back", reversing, (value) => (model, world) => reverse(model, world, "clawBack", value)),
  commands("reinstate", reversing, (value) => (model, world) => reverse(model, world, "reinstate", value)),
];
