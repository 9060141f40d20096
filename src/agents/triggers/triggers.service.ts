import { userErrors } from "../../account/users/errors.ts";
import type { Caller } from "../../api/contract/caller.ts";
import {
  HOOK,
  type NewTrigger,
  type Received,
  type TriggerChanges,
  type TriggerDelivery,
  type TriggerRecord,
} from "../../api/contract/triggers.ts";
import { createRateLimit } from "../../api/http/rate-limit.ts";
import { TRIGGERS } from "../../kernel/constants.ts";
import { errors, PurserError } from "../../kernel/errors.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import type { Cipher } from "../../platform/lib/cipher.ts";
import { addDays, type Clock, realNowMs, startOfDay } from "../../platform/lib/clock.ts";
import { addFormerSecret, findLastEnd, openSecrets } from "../../platform/lib/former-secrets.ts";
import { isUuid, newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { isTooDeep, stableJson } from "../../platform/lib/json.ts";
import type { Agents } from "../definitions/agents.service.ts";
import { keyPause, type ScheduleKey } from "../definitions/schedule-key.ts";
import { checkPlaceholders } from "../runs/prompts.ts";
import type { Runs } from "../runs/runs.service.ts";
import { type Content, keptHeaders, mapInput, parseBody, passesFilter } from "./delivery.ts";
import { triggerErrors } from "./errors.ts";
import { findDeliveryId, findDeliveryKey, findForgery, findSecretFault, newTriggerSecret } from "./signatures.ts";
import { createTriggerStore, type DeliveryRow, type TriggerRow } from "./triggers.store.ts";

/** Thrown to roll a run back whose delivery another request has carried out at the same time. */
const REPEATED = Symbol("a repeated delivery");
/** Thrown to roll a run back whose delivery is beyond the limits of its user's day. */
const DAY_IS_FULL = Symbol("a full day");

/** A request to a trigger's address. */
export interface HookRequest {
  header(name: string): string | undefined;
  headers: Readonly<Record<string, unknown>>;
  body: string;
  request_id: string;
}

interface TriggerIds {
  id: string;
  trigger_id: string;
}

export interface TriggersDeps {
  db: Db;
  clock: Clock;
  /** Seals the secrets. */
  cipher: Cipher;
  agents: Pick<Agents, "find" | "runTriggered">;
  runs: Pick<Runs, "outcomes">;
  lockAgent(
    tx: Tx,
    user_id: string,
    id: string,
  ): Promise<{ run_prompt: string | null; input_schema: AgentSchema } | undefined>;
  /** These keys, by id, locked until the transaction ends. */
  keysOf(tx: Tx, ids: readonly string[]): Promise<ReadonlyMap<string, ScheduleKey>>;
  suspended(sql: Sql, user_ids: readonly string[]): Promise<ReadonlySet<string>>;
  /** Requests per minute on this node. A reload replaces them. */
  limits(): { trigger_requests_per_minute: number; requests_per_minute: number };
  /** The service's public address. */
  url(): string;
  onDelivery(outcome: DeliveryOutcome): void;
}

type AgentSchema = Parameters<typeof checkPlaceholders>[2];
/** `rejected`: it did not prove its sender. `repeated`: it came before. `limited`: too many requests. */
export type DeliveryOutcome = TriggerDelivery["outcome"] | "rejected" | "repeated" | "limited";

/** Addresses at which other services start runs of agents. Owns `agent_trigger` and `trigger_delivery`. */
export function createTriggers(deps: TriggersDeps) {
  const store = createTriggerStore(deps.db);
  const records = createTriggerRecords(deps, store);
  return { ...records, ...createReceiver(deps, store, records.find) };
}

export type Triggers = ReturnType<typeof createTriggers>;
type Store = ReturnType<typeof createTriggerStore>;

const secretContext = ({ user_id, id }: Pick<TriggerRow, "user_id" | "id">) => `${user_id} ${id}`;

/** Triggers as their owners create, change and see them. */
function createTriggerRecords(deps: TriggersDeps, store: Store) {
  const { db, clock, cipher, agents, lockAgent } = deps;

  const seal = (row: Pick<TriggerRow, "user_id" | "id">, secret: string) =>
    cipher.seal(Buffer.from(secret), secretContext(row));
  const records = async (user_id: string, rows: readonly TriggerRow[]): Promise<TriggerRecord[]> => {
    const last = await store.lastDeliveries(
      user_id,
      rows.map(({ id }) => id),
    );
    const now = clock.now();
    return rows.map((row) => toRecord(row, { url: deps.url(), last_delivery_at: last.get(row.id) ?? null, now }));
  };
  const find = async (user_id: string, { id, trigger_id }: TriggerIds): Promise<TriggerRow> => {
    const agent = await agents.find(user_id, id);
    const row = isUuid(trigger_id) ? await store.find({ user_id, id: trigger_id }) : undefined;
    if (row?.agent_id !== agent.id) throw errors.notFound("This trigger");
    return row;
  };
  const get = async (user_id: string, ids: TriggerIds): Promise<TriggerRecord> => {
    const [record] = await records(user_id, [await find(user_id, ids)]);
    if (record === undefined) throw new Error("a trigger without its record");
    return record;
  };
  const lock = async (tx: Tx, user_id: string, id: string) => {
    const agent = isUuid(id) ? await lockAgent(tx, user_id, id) : undefined;
    if (agent === undefined) throw errors.notFound("This agent");
    return { agent, rows: await store.lock(tx, { user_id, agent_id: id }) };
  };
  const lockOne = async (tx: Tx, user_id: string, { id, trigger_id }: TriggerIds) => {
    const { agent, rows } = await lock(tx, user_id, id);
    const row = rows.find((each) => each.id === trigger_id);
    if (row === undefined) throw errors.notFound("This trigger");
    return { agent, rows, row };
  };
  const checkPrompt = (
    run_prompt: string | null,
    agent: { run_prompt: string | null; input_schema: AgentSchema },
  ): void => {
    checkPlaceholders(run_prompt, "run_prompt", agent.input_schema);
    if (run_prompt === null && (agent.run_prompt ?? "").trim() === "")
      throw errors.missingField("run_prompt", "The agent has none: set it there or here.");
  };
  const checkSecret = (verify: TriggerRow["verify"], secret: string | undefined): string => {
    if (secret === undefined) return newTriggerSecret(verify);
    const fault = findSecretFault(verify, secret);
    if (fault !== null) throw errors.invalidValue("secret", `secret ${fault}.`);
    return secret;
  };

  return {
    /** Oldest first; `after_id` is the last trigger of the page before. */
    async list(
      user_id: string,
      id: string,
      page: { limit: number; after_id: string | null },
    ): Promise<TriggerRecord[]> {
      const agent = await agents.find(user_id, id);
      return records(user_id, await store.list({ user_id, agent_id: agent.id }, page));
    },
    find,
    get,
    /** 409 for a name that is taken and beyond the limit. */
    async create(caller: Caller, id: string, given: NewTrigger): Promise<TriggerRecord & { secret: string }> {
      const { user_id } = caller;
      const { name, verify, filter = null, input_map = null, run_prompt = null, enabled = true } = given;
      const secret = checkSecret(verify, given.secret);
      const trigger_id = newId();
      await db.transaction(async (tx) => {
        const { agent, rows } = await lock(tx, user_id, id);
        if (rows.length >= TRIGGERS.per_agent) throw triggerErrors.triggerLimitReached();
        checkPrompt(run_prompt, agent);
        const now = clock.now();
        const row: TriggerRow = {
          user_id,
          id: trigger_id,
          agent_id: id,
          name,
          verify,
          filter,
          input_map,
          run_prompt,
          enabled,
          secret: seal({ user_id, id: trigger_id }, secret),
          former_secrets: [],
          api_key_id: caller.api_key_id,
          rejected_count: 0,
          last_rejected_at: null,
          last_rejected_reason: null,
          created_at: now,
          updated_at: now,
        };
        if (!(await store.insert(tx, row))) throw triggerErrors.triggerNameTaken();
      });
      return { ...(await get(user_id, { id, trigger_id })), secret };
    },
    async change(caller: Caller, ids: TriggerIds, changes: TriggerChanges): Promise<TriggerRecord> {
      const { user_id } = caller;
      await db.transaction(async (tx) => {
        const { agent, rows, row } = await lockOne(tx, user_id, ids);
        const { name = row.name, verify = row.verify, enabled = row.enabled } = changes;
        const filter = changes.filter === undefined ? row.filter : changes.filter;
        const input_map = changes.input_map === undefined ? row.input_map : changes.input_map;
        const run_prompt = changes.run_prompt === undefined ? row.run_prompt : changes.run_prompt;
        if (rows.some((each) => each.id !== row.id && each.name === name)) throw triggerErrors.triggerNameTaken();
        checkPrompt(run_prompt, agent);
        const after = { ...row, name, verify, filter, input_map, run_prompt, enabled };
        if (stableJson(after) === stableJson(row)) return;
        const is_same_task = stableJson({ ...after, name: row.name }) === stableJson(row);
        const api_key_id = is_same_task ? row.api_key_id : caller.api_key_id;
        await store.update(tx, { ...after, api_key_id, updated_at: clock.now() });
      });
      return get(user_id, ids);
    },
    /** The former secret is accepted for `overlap_hours`; 0: no former secret is any more. 409 for too many. */
    async rotate(
      user_id: string,
      ids: TriggerIds,
      { secret: given, overlap_hours }: { secret?: string | undefined; overlap_hours: number },
    ): Promise<TriggerRecord & { secret: string }> {
      const { verify } = await find(user_id, ids);
      const secret = checkSecret(verify, given);
      await db.transaction(async (tx) => {
        const { row } = await lockOne(tx, user_id, ids);
        const now = clock.now();
        const former_secrets = addFormerSecret(row.former_secrets, row.secret, { overlap_hours, now });
        await store.update(tx, { ...row, secret: seal(row, secret), former_secrets, updated_at: now });
      });
      return { ...(await get(user_id, ids)), secret };
    },
    async remove(user_id: string, ids: TriggerIds): Promise<void> {
      await store.remove(await find(user_id, ids));
    },
    /** Newest first; `before_id` is the last delivery of the page before. */
    async deliveries(
      user_id: string,
      ids: TriggerIds,
      page: { outcome: string | undefined; limit: number; before_id: string | null },
    ): Promise<TriggerDelivery[]> {
      const rows = await store.deliveries(await find(user_id, ids), page);
      const outcomes = await deps.runs.outcomes(
        user_id,
        rows.flatMap(({ run_id }) => run_id ?? []),
      );
      return rows.map(({ user_id: _user, key: _key, ...row }) => ({
        ...row,
        run: outcomes.get(row.run_id ?? "") ?? null,
      }));
    },
    sweep: () => store.sweep(addDays(clock.now(), -TRIGGERS.kept_days)),
    forgetUser: store.forgetUser,
  };
}

function toRecord(
  row: TriggerRow,
  { url, last_delivery_at, now }: { url: string; last_delivery_at: Instant | null; now: Instant },
): TriggerRecord {
  return {
    id: row.id,
    agent_id: row.agent_id,
    url: `${url}${HOOK.replace("{trigger_id}", row.id)}`,
    name: row.name,
    verify: row.verify,
    filter: row.filter,
    input_map: row.input_map,
    run_prompt: row.run_prompt,
    enabled: row.enabled,
    api_key_id: row.api_key_id,
    former_secret_until: findLastEnd(row.former_secrets, now),
    last_delivery_at,
    rejected_count: row.rejected_count,
    last_rejected_at: row.last_rejected_at,
    last_rejected_reason: row.last_rejected_reason,
    created_at: row.created_at,
    updated_at: row.updated_at,
  };
}

/** What a delivery is called, and what came in it. */
type Incoming = Pick<DeliveryRow, "delivery_id" | "key" | "resent_from" | "content" | "bytes"> & { request_id: string };

/** Receives deliveries and sends them again. */
function createReceiver(
  deps: TriggersDeps,
  store: Store,
  find: (user_id: string, ids: TriggerIds) => Promise<TriggerRow>,
) {
  const { db, clock, cipher, agents, keysOf, onDelivery } = deps;
  const limitTrigger = createRateLimit(() => deps.limits().trigger_requests_per_minute);
  const limitUser = createRateLimit(() => deps.limits().requests_per_minute);

  const secretsOf = (row: TriggerRow): string[] => {
    const secrets = openSecrets(row, clock.now(), (sealed) => cipher.open(sealed, secretContext(row)));
    if (secrets.length === 0) throw triggerErrors.secretUnreadable();
    return secrets;
  };
  const requireWithinLimits = ({ id, user_id }: TriggerRow): void => {
    const retry_after_s = limitTrigger(id).retry_after_s ?? limitUser(user_id).retry_after_s;
    if (retry_after_s === null) return;
    onDelivery("limited");
    throw errors.rateLimited(retry_after_s);
  };
  const recognizedSince = () => addDays(clock.now(), -TRIGGERS.recognized_days);
  const repeated = async (trigger_id: string, key: string | null): Promise<Received | null> => {
    const found = key === null ? undefined : await store.repeated(db, { trigger_id, key, since: recognizedSince() });
    if (found === undefined) return null;
    await store.countRepetition(found);
    onDelivery("repeated");
    return toReceived(found);
  };
  /** The key that pays for the trigger's runs; null: none does, the console created the trigger. Throws 409. */
  const payingKey = async (tx: Tx, { api_key_id }: TriggerRow): Promise<ScheduleKey | null> => {
    if (api_key_id === null) return null;
    const key = (await keysOf(tx, [api_key_id])).get(api_key_id);
    // A used-up budget is a 402 of the run.
    const pause = keyPause(key, { spend: undefined, now: clock.now() });
    if (key === undefined || pause === "key_revoked" || pause === "key_expired") throw triggerErrors.triggerKeyEnded();
    return key;
  };
  const callerOf = async (row: TriggerRow): Promise<Caller> => {
    const { user_id } = row;
    if ((await deps.suspended(db, [user_id])).has(user_id)) throw userErrors.accountSuspended();
    const key = row.api_key_id === null ? null : await db.transaction((tx) => payingKey(tx, row));
    return {
      user_id,
      scopes: [],
      api_key_id: row.api_key_id,
      key_budget_tokens: key?.budget_tokens ?? null,
      key_budget_interval: key?.budget_interval ?? null,
      allowed_models: key?.allowed_models ?? null,
      key_limits: key?.limits ?? null,
    };
  };
  /** Writes a delivery within the limits of its user's day. Its id. */
  const write = async (tx: Tx, delivery: Omit<DeliveryRow, "attempts">): Promise<string> => {
    const id = await store.write(tx, delivery, recognizedSince());
    if (id === undefined) throw REPEATED;
    if (!(await store.countDay(tx, delivery))) throw DAY_IS_FULL;
    return id;
  };

  /** Starts the delivery's run, and writes both in one transaction. Throws why no run can start. */
  const startRun = async (
    row: TriggerRow,
    incoming: Incoming,
    delivery: Omit<DeliveryRow, "attempts" | "outcome" | "run_id" | "error">,
  ) => {
    const input = mapInput(row.input_map, incoming.content);
    const caller = await callerOf(row);
    const run_id = newId();
    let id = delivery.id;
    const { id: trigger_id, name, run_prompt } = row;
    const run = { run_id, trigger: { id: trigger_id, name }, input, run_prompt, request_id: incoming.request_id };
    await agents.runTriggered(caller, row.agent_id, run, async (tx) => {
      // A key that is revoked from now on finds the run and cancels it.
      await payingKey(tx, row);
      id = await write(tx, { ...delivery, outcome: "run", run_id, error: null });
    });
    return { outcome: "run" as const, run_id, id };
  };
  const carryOut = async (row: TriggerRow, { request_id, ...incoming }: Incoming): Promise<Received> => {
    const { user_id, id: trigger_id } = row;
    const delivery = { ...incoming, user_id, id: newId(), trigger_id, received_at: clock.now() };
    try {
      if (!row.enabled) throw triggerErrors.triggerDisabled();
      if (passesFilter(row.filter, incoming.content)) {
        const started = await startRun(row, { ...incoming, request_id }, delivery);
        onDelivery("run");
        return toReceived(started);
      }
      const left_out = { outcome: "filtered" as const, run_id: null, error: null };
      const id = await db.transaction((tx) => write(tx, { ...delivery, ...left_out }));
      onDelivery("filtered");
      return toReceived({ ...left_out, id });
    } catch (thrown) {
      if (thrown === REPEATED) {
        const first = await repeated(trigger_id, incoming.key);
        if (first !== null) return first;
        throw errors.unknown("This address");
      }
      if (thrown === DAY_IS_FULL) onDelivery("limited");
      if (!(thrown instanceof PurserError)) throw thrown;
      const { code, message } = thrown;
      const failed = { ...delivery, outcome: "failed" as const, run_id: null, error: { code, message } };
      await db
        .transaction((tx) => write(tx, failed))
        .catch((error: unknown) => {
          // The day is full, or another request has carried it out meanwhile.
          if (error !== REPEATED && error !== DAY_IS_FULL) throw error;
        });
      onDelivery("failed");
      throw thrown;
    }
  };
  /** The owner and the sender may both know it. */
  const explainFullDay = (thrown: unknown): never => {
    if (thrown !== DAY_IS_FULL) throw thrown;
    const now = clock.now();
    const tomorrow = addDays(startOfDay(now), 1);
    throw triggerErrors.dayIsFull(tomorrow, (Date.parse(tomorrow) - Date.parse(now)) / 1_000);
  };

  return {
    /** Carries out a delivery. Throws 401 if it does not prove its sender, 429, and why its run cannot start. */
    async receive(trigger_id: string, request: HookRequest): Promise<Received | { challenge: string }> {
      const row = isUuid(trigger_id) ? await store.ofAddress(trigger_id) : undefined;
      if (row === undefined) throw errors.unknown("This address");
      const { header, body } = request;
      const { verify } = row;
      const forgery = findForgery(verify, { header, body }, { secrets: secretsOf(row), now_s: realNowMs() / 1_000 });
      if (forgery !== null) {
        await store.countRejected(row, { reason: forgery, now: clock.now() });
        onDelivery("rejected");
        throw triggerErrors.notVerified(forgery);
      }
      requireWithinLimits(row);
      const value = isTooDeep(body) ? undefined : parseBody(body, header("content-type") ?? "");
      if (value === undefined) throw triggerErrors.bodyUnreadable();
      if (verify === "slack" && value.type === "url_verification") return { challenge: String(value.challenge) };
      const delivery_id = findDeliveryId(verify, { header, body }, value);
      const key = findDeliveryKey(verify, delivery_id, body);
      const content: Content = { value, headers: keptHeaders(request.headers) };
      const bytes = Buffer.byteLength(body);
      const incoming = { delivery_id, key, resent_from: null, content, bytes, request_id: request.request_id };
      const first = await repeated(row.id, key);
      return first ?? (await carryOut(row, incoming).catch(throwToSender).catch(explainFullDay));
    },
    /** Sends a delivery again, as a new one. */
    async resend(
      user_id: string,
      { delivery_id, ...ids }: TriggerIds & { delivery_id: string },
      request_id: string,
    ): Promise<Received> {
      const row = await find(user_id, ids);
      const found = isUuid(delivery_id)
        ? await store.delivery({ user_id, id: delivery_id, trigger_id: row.id })
        : undefined;
      if (found === undefined) throw errors.notFound("This delivery");
      const { content, bytes } = found;
      return carryOut(row, {
        delivery_id: found.delivery_id,
        key: null,
        resent_from: found.id,
        content,
        bytes,
        request_id,
      }).catch(explainFullDay);
    },
  };
}

function toReceived({ id, outcome, run_id }: Pick<DeliveryRow, "id" | "outcome" | "run_id">): Received {
  return { run_id, outcome, delivery: id };
}

/** The sender is not the owner: it learns the code, and nothing of the account. */
function throwToSender(thrown: unknown): never {
  if (!(thrown instanceof PurserError) || thrown.shape.status === 404) throw thrown;
  throw thrown.with({
    message: "No run was started. The owner of the agent sees the reason in the trigger's deliveries.",
    param: undefined,
    metadata: undefined,
  });
}
