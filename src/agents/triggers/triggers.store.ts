import type { AgentKey } from "../../api/contract/agents.ts";
import type { TriggerDelivery, TriggerRecord } from "../../api/contract/triggers.ts";
import { FREE_DAY } from "../../kernel/constants.ts";
import type { Db, Sql, Statement, Tx } from "../../platform/db/db.ts";
import { assignments, createConditions, firstRow, insertInto } from "../../platform/db/statements.ts";
import type { FormerSecret } from "../../platform/lib/former-secrets.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { jsonbText } from "../../platform/lib/json.ts";
import type { Content } from "./delivery.ts";

/** Triggers and their deliveries. */

export interface TriggerRow extends Omit<TriggerRecord, "url" | "last_delivery_at" | "former_secret_until"> {
  user_id: string;
  /** Sealed, as the former ones. */
  secret: Buffer;
  /** Newest first. */
  former_secrets: readonly FormerSecret[];
}
/** The newest former secret has columns of its own, which nodes of 1.0 read and write. */
type StoredTrigger = Omit<TriggerRow, "former_secrets"> & {
  former_secret: Buffer | null;
  former_secret_until: Instant | null;
  older_secrets: FormerSecret[];
};

export interface DeliveryRow extends Omit<TriggerDelivery, "run"> {
  user_id: string;
  key: string | null;
  content: Content;
}

interface TriggerId {
  user_id: string;
  id: string;
}

const COLUMNS = `user_id, id, agent_id, name, verify, secret, former_secret, former_secret_until, older_secrets, filter, input_map, run_prompt, enabled,
  api_key_id, rejected_count, last_rejected_at, last_rejected_reason, created_at, updated_at`;
const DELIVERY_COLUMNS =
  "user_id, id, trigger_id, delivery_id, key, resent_from, received_at, outcome, run_id, error, bytes, attempts";

const json = (value: unknown) => (value === null ? null : jsonbText(value));
const toColumns = ({ former_secrets: [newest, ...older], ...row }: TriggerRow) => ({
  ...row,
  former_secret: newest === undefined ? null : Buffer.from(newest.secret, "base64"),
  former_secret_until: newest?.until ?? null,
  older_secrets: JSON.stringify(older),
  verify: JSON.stringify(row.verify),
  filter: json(row.filter),
  input_map: json(row.input_map),
});
const toRow = ({ former_secret, former_secret_until, older_secrets, ...row }: StoredTrigger): TriggerRow => {
  if (former_secret === null || former_secret_until === null) return { ...row, former_secrets: older_secrets };
  const newest = { secret: Buffer.from(former_secret).toString("base64"), until: former_secret_until };
  return { ...row, former_secrets: [newest, ...older_secrets] };
};

export function createTriggerStore(db: Db) {
  const select = async (sql: Sql, statement: Statement): Promise<TriggerRow[]> =>
    (await sql.query<StoredTrigger>(statement)).map(toRow);
  const selectOne = async (statement: Statement): Promise<TriggerRow | undefined> => (await select(db, statement))[0];
  return {
    /** False: the agent has a trigger of this name. */
    async insert(tx: Tx, row: TriggerRow): Promise<boolean> {
      const end = "on conflict (user_id, agent_id, name) do nothing returning id";
      return (await tx.query(insertInto("agent_trigger", toColumns(row), end))).length > 0;
    },
    async update(tx: Tx, row: TriggerRow): Promise<void> {
      const { user_id, id, agent_id: _, ...set } = toColumns(row);
      const values: unknown[] = [user_id, id];
      await tx.query({
        text: `update agent_trigger set ${assignments(values, set)} where user_id = $1 and id = $2`,
        values,
      });
    },
    async remove({ user_id, id }: TriggerId): Promise<void> {
      await db.query({ text: "delete from agent_trigger where user_id = $1 and id = $2", values: [user_id, id] });
    },
    /** The trigger of an address. */
    ofAddress: (id: string) =>
      selectOne({
        name: "trigger_of_address",
        text: `select ${COLUMNS} from agent_trigger where id = $1`,
        values: [id],
      }),
    find: ({ user_id, id }: TriggerId) =>
      selectOne({
        name: "trigger_find",
        text: `select ${COLUMNS} from agent_trigger where user_id = $1 and id = $2`,
        values: [user_id, id],
      }),
    /** The agent's triggers, locked until the transaction ends. */
    lock: (tx: Tx, { user_id, agent_id }: AgentKey) =>
      select(tx, {
        text: `select ${COLUMNS} from agent_trigger where user_id = $1 and agent_id = $2 order by user_id, id for no key update`,
        values: [user_id, agent_id],
      }),
    list: ({ user_id, agent_id }: AgentKey, { limit, after_id }: { limit: number; after_id: string | null }) =>
      select(db, {
        name: "trigger_list",
        text: `select ${COLUMNS} from agent_trigger where user_id = $1 and agent_id = $2 and ($3::uuid is null or id > $3)
          order by id limit $4`,
        values: [user_id, agent_id, after_id, limit],
      }),
    /** When each of these triggers received its last delivery. */
    async lastDeliveries(user_id: string, ids: readonly string[]): Promise<Map<string, Instant>> {
      const rows = await db.query<{ trigger_id: string; received_at: Instant }>({
        name: "trigger_last_deliveries",
        text: `select given.id as trigger_id, last.received_at
          from unnest($2::uuid[]) as given(id) cross join lateral (
            select received_at from trigger_delivery where user_id = $1 and trigger_id = given.id order by id desc limit 1
          ) as last`,
        values: [user_id, ids],
      });
      return new Map(rows.map(({ trigger_id, received_at }) => [trigger_id, received_at]));
    },
    async countRejected({ user_id, id }: TriggerId, { reason, now }: { reason: string; now: Instant }): Promise<void> {
      await db.query({
        name: "trigger_rejected",
        text: `update agent_trigger
          set rejected_count = rejected_count + 1, last_rejected_at = $3::timestamptz, last_rejected_reason = $4
          where user_id = $1 and id = $2`,
        values: [user_id, id, now, reason],
      });
    },

    /** A delivery with this key that no repetition may follow. It came after `since`. */
    repeated: (sql: Sql, { trigger_id, key, since }: { trigger_id: string; key: string | null; since: Instant }) =>
      firstRow<DeliveryRow>(sql, {
        name: "trigger_delivery_repeated",
        text: `select ${DELIVERY_COLUMNS} from trigger_delivery
          where trigger_id = $1 and key = $2 and outcome <> 'failed' and received_at > $3::timestamptz`,
        values: [trigger_id, key, since],
      }),
    async countRepetition({ user_id, id }: Pick<DeliveryRow, "user_id" | "id">): Promise<void> {
      await db.query({
        name: "trigger_delivery_again",
        text: "update trigger_delivery set attempts = attempts + 1 where user_id = $1 and id = $2",
        values: [user_id, id],
      });
    },
    /**
     * Writes a delivery, in place of one with its key that failed or came before `since`. Its id; undefined: it is a repetition, or
     * the trigger does not exist any more.
     */
    async write(tx: Tx, row: Omit<DeliveryRow, "attempts">, since: Instant): Promise<string | undefined> {
      const {
        user_id,
        id,
        trigger_id,
        delivery_id,
        key,
        resent_from,
        received_at,
        outcome,
        run_id,
        error,
        content,
        bytes,
      } = row;
      const written = await firstRow<{ id: string }>(tx, {
        name: "trigger_delivery_write",
        text: `insert into trigger_delivery as old
            (user_id, id, trigger_id, delivery_id, key, resent_from, received_at, outcome, run_id, error, content, bytes)
          select user_id, $2::uuid, id, $4::text, $5::text, $6::uuid, $7::timestamptz, $8::text, $9::uuid, $10::jsonb, $11::jsonb, $12::integer
            from agent_trigger where user_id = $1 and id = $3 for key share
          on conflict (trigger_id, key) do update set received_at = excluded.received_at, outcome = excluded.outcome,
            run_id = excluded.run_id, error = excluded.error, attempts = old.attempts + 1
            where old.outcome = 'failed' or old.received_at <= $13::timestamptz
          returning id`,
        values: [
          ...[user_id, id, trigger_id, delivery_id, key, resent_from, received_at, outcome, run_id],
          ...[json(error), jsonbText(content), bytes, since],
        ],
      });
      return written?.id;
    },
    /** Counts a delivery of the user's day. False: the day is full. */
    async countDay(tx: Tx, { user_id, received_at, bytes }: Pick<DeliveryRow, "user_id" | "received_at" | "bytes">) {
      const { trigger_deliveries, trigger_delivery_bytes } = FREE_DAY;
      const counted = await tx.query({
        name: "trigger_day_count",
        text: `insert into trigger_day as day (user_id, day, deliveries, bytes)
          values ($1, ($2::timestamptz at time zone 'UTC')::date, 1, $3)
          on conflict (user_id, day) do update set deliveries = day.deliveries + 1, bytes = day.bytes + excluded.bytes
            where day.deliveries < $4::integer and day.bytes + excluded.bytes <= $5::bigint
          returning 1 as counted`,
        values: [user_id, received_at, bytes, trigger_deliveries, trigger_delivery_bytes],
      });
      return counted.length > 0;
    },
    /** Newest first, without their content. */
    deliveries(
      { user_id, id }: TriggerId,
      { outcome, limit, before_id }: { outcome: string | undefined; limit: number; before_id: string | null },
    ) {
      const values: unknown[] = [user_id, id];
      const where = createConditions(values, "user_id = $1 and trigger_id = $2");
      where.only("outcome =", outcome);
      where.only("id <", before_id);
      return db.query<DeliveryRow>({
        text: `select ${DELIVERY_COLUMNS} from trigger_delivery where ${where.text()} order by id desc limit $${values.push(limit)}`,
        values,
      });
    },
    delivery: ({ user_id, id, trigger_id }: TriggerId & { trigger_id: string }) =>
      firstRow<DeliveryRow>(db, {
        name: "trigger_delivery_find",
        text: `select ${DELIVERY_COLUMNS}, content from trigger_delivery where user_id = $1 and id = $2 and trigger_id = $3`,
        values: [user_id, id, trigger_id],
      }),
    /** Deletes deliveries and days that are no longer kept. */
    async sweep(before: Instant): Promise<void> {
      await db.query({ text: "delete from trigger_delivery where received_at < $1::timestamptz", values: [before] });
      await db.query({
        text: "delete from trigger_day where day < ($1::timestamptz at time zone 'UTC')::date",
        values: [before],
      });
    },
    /** Deletes the triggers of an agent, and their deliveries. */
    async forgetAgent(tx: Tx, { user_id, agent_id }: AgentKey): Promise<void> {
      await tx.query({
        text: "delete from agent_trigger where user_id = $1 and agent_id = $2",
        values: [user_id, agent_id],
      });
    },
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      for (const table of ["trigger_delivery", "agent_trigger", "trigger_day"]) {
        await tx.query({ text: `delete from ${table} where user_id = $1`, values: [user_id] });
      }
    },
  };
}
