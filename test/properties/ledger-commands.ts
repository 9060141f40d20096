import fc from "fast-check";
import { expect } from "vitest";
import type { GrantRequest, HoldRequest, SettleRequest } from "../../src/account/ledger/ledger.types.ts";
import { addSeconds } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { instantOf } from "../../src/platform/lib/instant.ts";
import { type createLedgerFixture, holdOf, settleOf } from "./ledger-fixture.ts";
import * as m from "./ledger-model.ts";

/** The real ledger, and what the commands must remember of their calls. */
export interface World extends ReturnType<typeof createLedgerFixture> {
  user_id: string;
  key: string;
  /** runs of calls; null: a call without a run */
  runs: readonly (string | null)[];
  /** every hold that was requested or settled, because operations come again, late and out of order */
  holds: Asked[];
  buckets: string[];
  told: string[];
  dead: number;
  /** notes that a case of this kind has happened */
  seen(kind: Kind): void;
}

/** The cases that a long run must cover. */
export const KINDS = [
  "hold",
  "hold of less than was asked for",
  "hold of overage",
  "hold refused",
  "hold again",
  "settle of what was held",
  "settle of less than was held",
  "settle of more than was held",
  "settle without a hold",
  "settle again",
  "settle of the rest of a lost call",
  "overage",
  "absorbed",
  "release",
  "release of nothing",
  "progress",
  "progress of a dead call",
  "expiry of a hold",
  "expiry of a hold with progress",
  "grant",
  "grant of a period",
  "grant again",
  "grant that repays debt",
  "jump of time",
  "expiry of a bucket",
  "expiry of a bucket that is held",
  "claw-back",
  "claw-back of what is held",
  "claw-back into debt",
  "reinstatement",
  "reversal again",
  "cap",
  "period of overage",
  "threshold",
] as const;
type Kind = (typeof KINDS)[number];

interface Asked {
  hold_id: string;
  amount: number;
  minimum: number;
  budget: number | null;
}

type Ledger = fc.AsyncCommand<m.Model, World>;
type Run = (model: m.Model, world: World) => Promise<void>;

/** A command that can always be run. A failure prints `said`. */
function command(said: string, run: Run): Ledger {
  return { check: () => true, run, toString: () => said };
}

const commands = <Value extends object>(name: string, values: fc.Arbitrary<Value>, run: (value: Value) => Run) =>
  values.map((value) => command(`${name} ${JSON.stringify(value)}`, run(value)));

/** The run of a call is always the same one. */
const runOf = ({ runs }: World, hold_id: string) => runs[Number.parseInt(hold_id.slice(-2), 16) % runs.length] ?? null;

const recent = <Item>(items: Item[], ago: number): Item | undefined => items[items.length - 1 - ago];
const amount = fc.integer({ min: 0, max: 120 });
const ago = fc.nat({ max: 6 });
/** Which call: mostly one with an open hold, or a lost one, or any recent one. */
const calling = fc.record({ ago, of: fc.constantFrom("open", "open", "open", "lost", "any") });
const asking = fc.record({ amount, slack: amount, budget: fc.option(fc.nat({ max: 900 })) });

// Concurrent operations execute in the order of their requests, so the model executes each one at its request.

async function hold(model: m.Model, world: World, asked: Asked): Promise<void> {
  const { hold_id, minimum, budget } = asked;
  // A settled call is not held again. The answer is the hold that it had.
  const expected = model.charges.has(hold_id) ? { status: "held", hold_id } : m.modelHold(model, asked);
  const run_id = runOf(world, hold_id);
  const more: Partial<HoldRequest> = { hold_id, run_id, minimum_tokens: minimum, key_budget_tokens: budget };
  const outcome = await world.ledger.hold(holdOf(world.user_id, asked.amount, { ...more, api_key_id: world.key }));
  expect(outcome).toMatchObject(expected);
}

function seenHold(model: m.Model, { seen }: World, { hold_id, amount }: Asked): void {
  const open = model.holds.get(hold_id);
  seen(open === undefined ? "hold refused" : "hold");
  if (open === undefined) return;
  if (open.held < amount) seen("hold of less than was asked for");
  if (open.overage > 0) seen("hold of overage");
}

async function settle(model: m.Model, world: World, { hold_id, budget }: Asked, cost_tokens: number): Promise<void> {
  const held = model.holds.get(hold_id)?.held;
  const was_lost = model.lost.has(hold_id);
  const expected = m.modelSettle(model, hold_id, { cost_tokens, budget });
  seenSettle(world, expected, { held, was_lost });
  const run_id = runOf(world, hold_id);
  const request: Partial<SettleRequest> = { api_key_id: world.key, run_id, key_budget_tokens: budget };
  const outcome = await world.ledger.settle(settleOf(world.user_id, hold_id, cost_tokens, request));
  expect(outcome).toEqual({ status: "settled", ...expected });
}

function seenSettle(
  { seen }: World,
  charge: m.ModelCharge & { replayed: boolean },
  { held, was_lost }: { held: number | undefined; was_lost: boolean },
): void {
  const { cost_tokens, replayed } = charge;
  if (replayed) seen("settle again");
  else if (was_lost) seen("settle of the rest of a lost call");
  else if (held === undefined) seen("settle without a hold");
  else if (cost_tokens === held) seen("settle of what was held");
  else seen(cost_tokens < held ? "settle of less than was held" : "settle of more than was held");
  if (!replayed && charge.overage_tokens > 0) seen("overage");
  if (!replayed && charge.absorbed_tokens > 0) seen("absorbed");
}

async function release(model: m.Model, world: World, { hold_id }: Asked): Promise<void> {
  world.seen(model.holds.has(hold_id) ? "release" : "release of nothing");
  m.modelRelease(model, hold_id);
  await world.ledger.release({ user_id: world.user_id, hold_id });
}

function newHold(world: World, { amount, slack, budget }: { amount: number; slack: number; budget: number | null }) {
  const minimum = Math.max(Math.min(1, amount), amount - slack);
  const asked = { hold_id: newId(), amount, minimum, budget };
  world.holds.push(asked);
  return asked;
}

/** A subscription's period, a top-up or a bonus, once for each key. */
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
  if (known !== undefined) {
    world.seen("grant again");
    return expect(id).toBe(known.id);
  }
  world.seen(source === "subscription" ? "grant of a period" : "grant");
  if (model.debt > 0) world.seen("grant that repays debt");
  const times = { granted_at: Date.parse(granted_at), expires_at: Date.parse(expires_at) };
  const bucket = m.modelGrant(model, { id, amount, ...times }, source !== "bonus");
  if (asked.key !== null) model.grants.set(`payment ${asked.key}`, bucket);
  world.buckets.push(id);
}

/** Advances to the next expiry of a bucket, a millisecond before it, or one after it. */
function passTo(model: m.Model, world: World, offset_ms: number): void {
  const next = Math.min(...model.buckets.map((bucket) => bucket.expires_at).filter((at) => at > model.now));
  if (!Number.isFinite(next) || next + offset_ms < model.now) return;
  world.clock.put(instantOf(next + offset_ms));
  pass(model, world);
}

/** Moves the model to the clock's time. */
function pass(model: m.Model, world: World): void {
  const now = Date.parse(world.clock.now());
  world.seen("jump of time");
  for (const { expires_at, held } of model.buckets) {
    if (expires_at <= model.now || expires_at > now) continue;
    world.seen(held > 0 ? "expiry of a bucket that is held" : "expiry of a bucket");
  }
  m.modelPass(model, now);
}

const reversing = fc.record({
  ago,
  is_held: fc.boolean(),
  amount: fc.integer({ min: 1, max: 250 }),
  key: fc.nat({ max: 6 }),
});

async function reverse(
  model: m.Model,
  world: World,
  how: "clawBack" | "reinstate",
  asked: { ago: number; is_held: boolean; amount: number; key: number },
): Promise<void> {
  const any = recent(world.buckets, Math.min(asked.ago, world.buckets.length - 1));
  const pinned = asked.is_held ? model.buckets.find(({ held, recalled }) => held > recalled) : undefined;
  const bucket = pinned ?? model.buckets.find(({ id }) => id === any);
  if (bucket === undefined) return;
  const key = `event ${asked.key}`;
  const request = { user_id: world.user_id, bucket_id: bucket.id, amount_tokens: asked.amount, reason: how, key };
  const outcome = await world.ledger[how](request);
  const [recalled, is_again] = [bucket.recalled, model.reversals.has(key)];
  const reverseModel = how === "clawBack" ? m.modelClawBack : m.modelReinstate;
  expect(outcome).toEqual(reverseModel(model, bucket, asked.amount, key));
  world.seen(is_again ? "reversal again" : how === "clawBack" ? "claw-back" : "reinstatement");
  if (bucket.recalled > recalled) world.seen("claw-back of what is held");
  if (!is_again && how === "clawBack" && outcome.debt_tokens > 0) world.seen("claw-back into debt");
}

/** Progress of a stream: its cost so far, or only that it lives. */
async function progress(model: m.Model, world: World, { hold_id, budget }: Asked, cost: number | null): Promise<void> {
  const { user_id, key } = world;
  const more = { api_key_id: key, run_id: runOf(world, hold_id), key_budget_tokens: budget };
  const charge = cost === null ? null : settleOf(user_id, hold_id, cost, more);
  await world.ledger.progress([{ user_id, hold_id, charge }]);
  const open = model.holds.get(hold_id);
  if (open === undefined) return;
  world.seen(open.dead ? "progress of a dead call" : "progress");
  open.dead = false;
  open.progress = cost ?? open.progress;
}

/** The call's process died long ago. Sweeps end the holds in the order in which their processes died. */
async function die(model: m.Model, world: World, { hold_id }: Asked): Promise<void> {
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
  for (const { dead, progress } of model.holds.values()) {
    if (dead) world.seen(progress === null ? "expiry of a hold" : "expiry of a hold with progress");
  }
  m.modelSweep(model);
  if (model.crossings.length > 0) world.seen("threshold");
  expect(world.told.toSorted()).toEqual(model.crossings.toSorted());
}

async function closeOverage(model: m.Model, world: World, unit: number): Promise<void> {
  const carried_tokens = model.overage % unit;
  const closed = await world.ledger.closeOveragePeriod({ user_id: world.user_id, carried_tokens });
  expect(closed).toEqual({ used_tokens: model.overage });
  world.seen("period of overage");
  model.overage = carried_tokens;
}

function callOf(model: m.Model, world: World, { ago, of }: { ago: number; of: string }): Asked | undefined {
  const calls = of === "open" ? model.holds : of === "lost" ? model.lost : null;
  const wanted = world.holds.filter(({ hold_id }) => calls?.has(hold_id));
  const among = wanted.length > 0 ? wanted : world.holds;
  return recent(among, Math.min(ago, among.length - 1));
}

const onCall = (name: string, run: (model: m.Model, world: World, asked: Asked) => Promise<void>) =>
  commands(name, calling, (value) => async (model, world) => {
    const asked = callOf(model, world, value);
    if (asked !== undefined) await run(model, world, asked);
  });

const settling = commands("settle", fc.record({ call: calling, cost: fc.nat({ max: 200 }) }), ({ call, cost }) => {
  return async (model, world) => {
    const asked = callOf(model, world, call);
    if (asked !== undefined) await settle(model, world, asked, cost);
  };
});

const progressing = commands(
  "progress",
  fc.record({ call: calling, cost: fc.option(fc.nat({ max: 150 })) }),
  ({ call, cost }) =>
    async (model, world) => {
      const asked = callOf(model, world, call);
      if (asked !== undefined) await progress(model, world, asked, cost);
    },
);

/** A call whose process dies after it has reported a cost. */
const losing = commands("lose", fc.record({ call: calling, cost: fc.nat({ max: 150 }) }), ({ call, cost }) => {
  return async (model, world) => {
    const asked = callOf(model, world, call);
    if (asked === undefined) return;
    await progress(model, world, asked, cost);
    await die(model, world, asked);
    await sweep(model, world);
  };
});

const holding = commands("hold", asking, (value) => async (model, world) => {
  const asked = newHold(world, value);
  await hold(model, world, asked);
  seenHold(model, world, asked);
});

/** For batches: when the answer arrives the model is already ahead, so no case is recorded here. */
const holdingBlindly = commands("hold", asking, (value) => (model, world) => hold(model, world, newHold(world, value)));

/** Concurrent operations go into one batch, and execute in their order. */
const together = fc
  .array(fc.oneof(holdingBlindly, settling, onCall("release", release)), { minLength: 2, maxLength: 5 })
  .map((parts) =>
    command(`together [${parts.join(", ")}]`, async (model, world) => {
      await Promise.all(parts.map((part) => part.run(model, world)));
    }),
  );

const granting = commands(
  "grant",
  fc.record({
    amount: fc.integer({ min: 1, max: 600 }),
    lasting_s: fc.integer({ min: 1, max: 1_500 }),
    source: fc.constantFrom("subscription", "top_up", "bonus"),
    key: fc.option(fc.nat({ max: 12 })),
  }),
  (value) => (model, world) => grant(model, world, value),
);

const passing = commands("pass", fc.record({ seconds: fc.integer({ min: 1, max: 300 }) }), ({ seconds }) => {
  return async (model, world) => {
    world.pass(seconds);
    pass(model, world);
  };
});

const capping = commands("overage", fc.record({ cap: fc.option(fc.nat({ max: 300 })) }), ({ cap }) => {
  return async (model, world) => {
    await world.ledger.setOverage({ user_id: world.user_id, cap_tokens: cap });
    model.overage_cap = cap;
    world.seen("cap");
  };
});

/** All commands, with their weights. */
const WEIGHTS: readonly (readonly [weight: number, arbitrary: fc.Arbitrary<Ledger>])[] = [
  [8, holding],
  [
    1,
    onCall("hold again", async (model, world, asked) => {
      if (model.holds.has(asked.hold_id)) world.seen("hold again");
      await hold(model, world, asked);
    }),
  ],
  [4, settling],
  [
    1,
    onCall("settle exactly", (model, world, asked) => {
      return settle(model, world, asked, model.holds.get(asked.hold_id)?.held ?? 7);
    }),
  ],
  [
    1,
    commands("settle without a hold", fc.record({ cost: fc.nat({ max: 90 }) }), ({ cost }) => (model, world) => {
      return settle(model, world, newHold(world, { amount: 0, slack: 0, budget: null }), cost);
    }),
  ],
  [1, onCall("release", release)],
  [2, together],
  [6, granting],
  [2, passing],
  [
    2,
    commands("pass to an expiry", fc.record({ offset_ms: fc.constantFrom(-1, 0, 1) }), ({ offset_ms }) => {
      return async (model, world) => passTo(model, world, offset_ms);
    }),
  ],
  [3, progressing],
  [3, onCall("die", die)],
  [2, losing],
  [3, fc.constant(command("sweep", sweep))],
  [1, capping],
  [
    1,
    commands("close overage", fc.record({ unit: fc.integer({ min: 1, max: 60 }) }), ({ unit }) => {
      return (model, world) => closeOverage(model, world, unit);
    }),
  ],
  [2, commands("claw back", reversing, (value) => (model, world) => reverse(model, world, "clawBack", value))],
  [1, commands("reinstate", reversing, (value) => (model, world) => reverse(model, world, "reinstate", value))],
];

/** Each kind of command, repeated by its weight. */
export const ledgerCommands = WEIGHTS.flatMap(([weight, arbitrary]) =>
  Array<fc.Arbitrary<Ledger>>(weight).fill(arbitrary),
);
