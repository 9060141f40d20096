/**
 * The ledger's rules for one account, in their simplest form: no concurrency, no storage, times in milliseconds.
 * The tests compare the real ledger's answers with this model.
 */
export interface ModelBucket {
  id: string;
  original: number;
  remaining: number;
  held: number;
  granted_at: number;
  expires_at: number;
  clawed_back: number;
  /** the part of clawed_back that calls still hold */
  recalled: number;
  /** tokens that expired unspent */
  lapsed: number;
}

interface ModelHold {
  held: number;
  overage: number;
  budget: number | null;
  slices: { bucket: ModelBucket; tokens: number }[];
  /** the cost as which an expired lease settles it */
  progress: number | null;
  /** its lease has expired */
  dead: boolean;
}

export interface ModelCharge {
  cost_tokens: number;
  charged_tokens: number;
  overage_tokens: number;
  absorbed_tokens: number;
}

export interface Model {
  now: number;
  trial_ends_at: number | null;
  paid: boolean;
  buckets: ModelBucket[];
  grants: Map<string, ModelBucket>;
  reversals: Map<string, { reversed_tokens: number; debt_tokens: number }>;
  holds: Map<string, ModelHold>;
  charges: Map<string, ModelCharge>;
  /** charges at the last known cost of a lost call */
  lost: Set<string>;
  debt: number;
  /** with the one API key */
  spent: number;
  overage: number;
  overage_cap: number | null;
  /** the balance after the last grant, and the highest reported percentage of its use */
  granted: number;
  notified_percent: number;
  /** `kind hold_id percent` of thresholds that were not reported yet */
  crossings: string[];
}

export function newModel(now: number, trial_ends_at: number | null): Model {
  const known = { buckets: [], grants: new Map(), reversals: new Map() };
  const calls = { holds: new Map(), charges: new Map(), lost: new Set<string>() };
  const nothing = { debt: 0, spent: 0, overage: 0, overage_cap: null, granted: 0, notified_percent: 0, crossings: [] };
  return { now, trial_ends_at, paid: false, ...known, ...calls, ...nothing };
}

const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0);
const live = (model: Model) => model.buckets.filter((bucket) => bucket.expires_at > model.now);
const posted = (model: Model) => sum(model.buckets.map((bucket) => bucket.remaining));
export const heldOverage = (model: Model) => sum([...model.holds.values()].map((hold) => hold.overage));

export function modelStatus(model: Model): { posted: number; held: number; debt: number } {
  const buckets = live(model);
  return {
    posted: sum(buckets.map((bucket) => bucket.remaining)),
    held: sum(buckets.map((bucket) => bucket.held)),
    debt: model.debt,
  };
}

/** Expired tokens that no call holds leave the account. */
export function modelPass(model: Model, now: number): void {
  model.now = now;
  for (const bucket of model.buckets) {
    if (bucket.expires_at > now) continue;
    bucket.lapsed += bucket.remaining - bucket.held;
    bucket.remaining = bucket.held;
  }
  crossBalance(model, "nobody");
}

type Grant = Pick<ModelBucket, "id" | "granted_at" | "expires_at"> & { amount: number };

export function modelGrant(model: Model, { amount, ...bucket }: Grant, is_paid: boolean): ModelBucket {
  const repaid = Math.min(model.debt, amount);
  model.debt -= repaid;
  const nothing = { held: 0, clawed_back: 0, recalled: 0, lapsed: 0 };
  const made = { ...bucket, original: amount, remaining: amount - repaid, ...nothing };
  model.buckets.push(made);
  model.buckets.sort((one, other) => one.granted_at - other.granted_at || (one.id < other.id ? -1 : 1));
  model.paid ||= is_paid;
  model.granted = posted(model);
  model.notified_percent = 0;
  return made;
}

export function modelHold(
  model: Model,
  ask: { hold_id: string; amount: number; minimum: number; budget: number | null },
): { status: "held"; held_tokens: number } | { status: "refused"; code: string } {
  const open = model.holds.get(ask.hold_id);
  if (open !== undefined) return { status: "held", held_tokens: open.held };
  const { posted, held } = modelStatus(model);
  if (model.trial_ends_at !== null && model.trial_ends_at <= model.now && !model.paid) {
    return { status: "refused", code: "trial_ended" };
  }
  const key_used = model.spent + sum([...model.holds.values()].map((hold) => hold.held));
  const wanted = ask.budget === null ? ask.amount : Math.min(ask.amount, Math.max(0, ask.budget - key_used));
  if (wanted < ask.minimum) return { status: "refused", code: "key_budget_exceeded" };
  const overage_left = model.overage_cap === null ? 0 : Math.max(0, model.overage_cap - model.overage);
  const overage_free = Math.max(0, overage_left - heldOverage(model));
  if (posted - held + overage_free < ask.minimum) {
    if (model.overage_cap !== null && posted + overage_left < ask.minimum)
      return { status: "refused", code: "overage_cap_reached" };
    if (model.overage_cap === null && posted === 0) return { status: "refused", code: "out_of_tokens" };
    const code = posted + overage_left >= ask.minimum ? "in_flight_exhausted" : "insufficient_balance";
    return { status: "refused", code };
  }
  const hold: ModelHold = { held: 0, overage: 0, budget: ask.budget, slices: [], progress: null, dead: false };
  for (const bucket of live(model)) {
    const tokens = Math.min(wanted - hold.held, bucket.remaining - bucket.held);
    if (tokens === 0) continue;
    bucket.held += tokens;
    hold.held += tokens;
    hold.slices.push({ bucket, tokens });
  }
  hold.overage = Math.min(wanted - hold.held, overage_free);
  hold.held += hold.overage;
  model.holds.set(ask.hold_id, hold);
  return { status: "held", held_tokens: hold.held };
}

/** Returns the hold's tokens to a claw-back that waits for them, otherwise to the bucket unless it has expired. */
function release(model: Model, hold_id: string, spend: number): { spent: number; overage: number } {
  const hold = model.holds.get(hold_id);
  if (hold === undefined) return { spent: 0, overage: 0 };
  let spent = 0;
  for (const { bucket, tokens } of hold.slices) {
    const taken = Math.min(spend - spent, tokens);
    const returned = Math.min(tokens - taken, bucket.recalled);
    const lapsed = bucket.expires_at <= model.now ? tokens - taken - returned : 0;
    spent += taken;
    bucket.held -= tokens;
    bucket.remaining -= taken + returned + lapsed;
    bucket.lapsed += lapsed;
    bucket.recalled -= returned;
    const owed = Math.max(0, bucket.recalled - bucket.held);
    bucket.recalled -= owed;
    model.debt += owed;
  }
  model.holds.delete(hold_id);
  return { spent, overage: Math.min(spend - spent, hold.overage) };
}

export function modelRelease(model: Model, hold_id: string): void {
  release(model, hold_id, 0);
  crossBalance(model, "nobody");
}

const NOTHING: ModelCharge = { cost_tokens: 0, charged_tokens: 0, overage_tokens: 0, absorbed_tokens: 0 };

/** Charges a call. A lost call that settles late is charged the difference. */
export function modelSettle(
  model: Model,
  hold_id: string,
  { cost_tokens, budget }: { cost_tokens: number; budget: number | null },
): ModelCharge & { replayed: boolean } {
  const before = model.charges.get(hold_id) ?? NOTHING;
  const is_rest = model.lost.has(hold_id) && cost_tokens > before.cost_tokens;
  if (before !== NOTHING && !is_rest) return { ...before, replayed: true };
  model.lost.delete(hold_id);
  const added = pay(model, hold_id, cost_tokens - before.cost_tokens, budget);
  const charge = {
    cost_tokens,
    charged_tokens: before.charged_tokens + added.charged_tokens,
    overage_tokens: before.overage_tokens + added.overage_tokens,
    absorbed_tokens: before.absorbed_tokens + added.absorbed_tokens,
  };
  model.charges.set(hold_id, charge);
  return { ...charge, replayed: false };
}

function pay(model: Model, hold_id: string, cost: number, budget: number | null): ModelCharge {
  const held = release(model, hold_id, cost);
  let unmet = cost - held.spent - held.overage;
  for (const bucket of live(model)) {
    const taken = Math.min(unmet, bucket.remaining - bucket.held);
    bucket.remaining -= taken;
    unmet -= taken;
  }
  const cap_left =
    model.overage_cap === null ? 0 : model.overage_cap - model.overage - held.overage - heldOverage(model);
  const overage = held.overage + Math.min(unmet, Math.max(0, cap_left));
  const absorbed = unmet - (overage - held.overage);
  model.overage += overage;
  model.spent += cost;
  const charge = {
    cost_tokens: cost,
    charged_tokens: cost - overage - absorbed,
    overage_tokens: overage,
    absorbed_tokens: absorbed,
  };
  crossBalance(model, hold_id);
  crossShare(model, `${hold_id} overage`, { used: model.overage, added: overage, whole: model.overage_cap });
  crossShare(model, `${hold_id} key_budget`, { used: model.spent, added: cost, whole: budget });
  return charge;
}

const PERCENTS = [50, 80, 100];

/** Reports which percentages of the balance after the last grant are used, by charges or by expiry. */
function crossBalance(model: Model, whose: string): void {
  for (const percent of PERCENTS) {
    const is_reached = model.granted > 0 && (model.granted - posted(model)) * 100 >= model.granted * percent;
    if (!is_reached || percent <= model.notified_percent) continue;
    model.crossings.push(`${whose} balance ${percent}`);
    model.notified_percent = percent;
  }
}

/** Reports the percentages of a cap or a budget that the `added` tokens reached. */
function crossShare(model: Model, which: string, share: { used: number; added: number; whole: number | null }): void {
  const { used, added, whole } = share;
  for (const percent of PERCENTS) {
    const limit = (whole ?? 0) * percent;
    if (limit > 0 && (used - added) * 100 < limit && used * 100 >= limit) model.crossings.push(`${which} ${percent}`);
  }
}

/** Ends the holds whose lease has expired, in the given order. */
export function modelSweep(model: Model): void {
  for (const [hold_id, hold] of [...model.holds]) {
    if (!hold.dead) continue;
    if (hold.progress === null) modelRelease(model, hold_id);
    else {
      modelSettle(model, hold_id, { cost_tokens: hold.progress, budget: hold.budget });
      model.lost.add(hold_id);
    }
  }
}

export function modelClawBack(model: Model, bucket: ModelBucket, asked: number, key: string) {
  const before = model.reversals.get(key);
  if (before !== undefined) return before;
  const amount = Math.min(asked, bucket.original - bucket.clawed_back);
  const free = Math.min(amount, bucket.remaining - bucket.held);
  const lapsed = Math.min(amount - free, bucket.lapsed);
  const recalled = Math.min(amount - free - lapsed, bucket.held - bucket.recalled);
  const debt_tokens = amount - free - lapsed - recalled;
  bucket.remaining -= free;
  bucket.lapsed -= lapsed;
  bucket.recalled += recalled;
  bucket.clawed_back += amount;
  model.debt += debt_tokens;
  crossBalance(model, "nobody");
  const reversal = { reversed_tokens: amount, debt_tokens };
  model.reversals.set(key, reversal);
  return reversal;
}

export function modelReinstate(model: Model, bucket: ModelBucket, asked: number, key: string) {
  const before = model.reversals.get(key);
  if (before !== undefined) return before;
  const amount = Math.min(asked, bucket.clawed_back);
  const kept = Math.min(amount, bucket.recalled);
  const debt_tokens = Math.min(amount - kept, model.debt);
  const back = amount - kept - debt_tokens;
  bucket.recalled -= kept;
  bucket.clawed_back -= amount;
  model.debt -= debt_tokens;
  if (bucket.expires_at <= model.now) bucket.lapsed += back;
  else bucket.remaining += back;
  const reversal = { reversed_tokens: amount, debt_tokens };
  model.reversals.set(key, reversal);
  return reversal;
}
