/**
 * The ledger's rules for one account, as plainly as they can be said: no concurrency, no storage, times in
 * milliseconds. What the real one answers is compared with this.
 */
export interface ModelBucket {
  id: string;
  remaining: number;
  held: number;
  granted_at: number;
  expires_at: number;
}

interface ModelHold {
  held: number;
  overage: number;
  slices: { bucket: ModelBucket; tokens: number }[];
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
  holds: Map<string, ModelHold>;
  charges: Map<string, ModelCharge>;
  spent: number;
  overage: number;
  overage_cap: number | null;
}

export function newModel(now: number, trial_ends_at: number | null): Model {
  const empty = { buckets: [], holds: new Map(), charges: new Map(), spent: 0, overage: 0, overage_cap: null };
  return { now, trial_ends_at, paid: false, ...empty };
}

const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0);
const live = (model: Model) => model.buckets.filter((bucket) => bucket.expires_at > model.now);
const heldOverage = (model: Model) => sum([...model.holds.values()].map((hold) => hold.overage));

export function modelStanding(model: Model): { posted: number; held: number } {
  const buckets = live(model);
  return { posted: sum(buckets.map((bucket) => bucket.remaining)), held: sum(buckets.map((bucket) => bucket.held)) };
}

export function modelGrant(model: Model, bucket: ModelBucket, is_paid: boolean): void {
  model.buckets.push(bucket);
  model.buckets.sort((one, other) => one.granted_at - other.granted_at || (one.id < other.id ? -1 : 1));
  model.paid ||= is_paid;
}

export function modelHold(
  model: Model,
  ask: { hold_id: string; amount: number; minimum: number; budget: number | null },
): { status: "held"; held_tokens: number } | { status: "refused"; code: string } {
  const { posted, held } = modelStanding(model);
  if (model.trial_ends_at !== null && model.trial_ends_at <= model.now && !model.paid) {
    return { status: "refused", code: "trial_ended" };
  }
  const key_used = model.spent + sum([...model.holds.values()].map((hold) => hold.held));
  const wanted = ask.budget === null ? ask.amount : Math.min(ask.amount, Math.max(0, ask.budget - key_used));
  if (wanted < ask.minimum) return { status: "refused", code: "key_budget_exceeded" };
  const overage_left = model.overage_cap === null ? 0 : model.overage_cap - model.overage;
  const overage_free = Math.max(0, overage_left - heldOverage(model));
  if (posted - held + overage_free < ask.minimum) {
    if (model.overage_cap !== null && posted + overage_left < ask.minimum)
      return { status: "refused", code: "overage_cap_reached" };
    if (model.overage_cap === null && posted === 0) return { status: "refused", code: "out_of_tokens" };
    const code = posted + overage_left >= ask.minimum ? "in_flight_exhausted" : "insufficient_balance";
    return { status: "refused", code };
  }
  const hold: ModelHold = { held: 0, overage: 0, slices: [] };
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

/** Gives the hold's tokens back and says what they were; what belongs to a bucket that has expired is lost. */
function letGo(model: Model, hold_id: string, spend: number): { spent: number; overage: number } {
  const hold = model.holds.get(hold_id);
  if (hold === undefined) return { spent: 0, overage: 0 };
  let spent = 0;
  for (const { bucket, tokens } of hold.slices) {
    const taken = Math.min(spend - spent, tokens);
    spent += taken;
    bucket.held -= tokens;
    bucket.remaining -= bucket.expires_at <= model.now ? tokens : taken;
  }
  model.holds.delete(hold_id);
  return { spent, overage: Math.min(spend - spent, hold.overage) };
}

export function modelRelease(model: Model, hold_id: string): void {
  letGo(model, hold_id, 0);
}

export function modelSettle(model: Model, hold_id: string, cost: number): ModelCharge & { replayed: boolean } {
  const before = model.charges.get(hold_id);
  if (before !== undefined) return { ...before, replayed: true };
  const held = letGo(model, hold_id, cost);
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
  model.charges.set(hold_id, charge);
  return { ...charge, replayed: false };
}
