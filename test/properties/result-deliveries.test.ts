import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { Notices } from "../../src/account/notices/notices.service.ts";
import { createAgentsStore } from "../../src/agents/definitions/agents.store.ts";
import { createRunOutcomes } from "../../src/agents/definitions/run-outcomes.service.ts";
import { selectRun } from "../../src/agents/runs/history.store.ts";
import { toRunRecord } from "../../src/agents/runs/run-record.ts";
import type { AgentDelivery } from "../../src/api/contract/deliveries.ts";
import type { Db, Tx } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { newWebhookSecret } from "../../src/platform/net/standard-webhooks.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createTestDatabase, insertAgent, type TestDatabase } from "../support/database.ts";
import { makeDue, noticesNode } from "../support/notices.ts";
import { type Receiver, startReceiver, type Treatment } from "../support/receiver.ts";
import { createScheduling, type Scheduling } from "../support/scheduling.ts";
import { LIMITS } from "./run-queue-fixture.ts";

// Runs end, transactions crash, nodes die during a delivery, and the receiver takes, refuses, or hangs up, at random. At
// the end each run's deliveries are compared with a model, and with what the receiver has seen.

const RUNS = Number(process.env.PROPERTY_RUNS ?? 25);
const SECRET = newWebhookSecret();

let database: TestDatabase;
let db: Db;
let receiver: Receiver;
let scheduling: Scheduling;
let node: { notices: Notices; kill(): void };
let crash_next = false;
let agent: { user_id: string; agent_id: string };

/** A node that delivers. After `kill` none of its statements reaches the database, as after kill -9. */
async function startNode(): Promise<typeof node> {
  let is_dead = false;
  const unlessDead = async <Answer>(work: () => Promise<Answer>): Promise<Answer> => {
    if (is_dead) throw new Error("the process is dead");
    return work();
  };
  const mortal: Db = {
    ...db,
    query: (query) => unlessDead(() => db.query(query)),
    transaction: (work) => unlessDead(() => db.transaction(work)),
  };
  const notices = noticesNode(mortal, {
    allow: [receiver.host],
    results: {
      async resultOf({ user_id, run_id }) {
        const row = await selectRun(mortal, user_id, run_id);
        return row === undefined
          ? null
          : {
              run: { ...toRunRecord(row), input: row.input, output: row.output, output_json: row.output_json },
              agent_name: "A",
              schedule_name: null,
            };
      },
      signingKeyOf: async () => SECRET,
    },
  });
  await notices.start();
  return {
    notices,
    kill: () => {
      is_dead = true;
    },
  };
}

beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  receiver = await startReceiver();
  node = await startNode();
  const deliverResults = async (...[results, tx]: Parameters<Notices["deliverResults"]>) => {
    await node.notices.deliverResults(results, tx);
    if (crash_next) throw new Error("crashed before the commit");
  };
  scheduling = createScheduling({
    db,
    clock: { now: () => "2026-03-01T09:00:00.000Z" },
    onRunEnd: (ending, tx: Tx) => onRunEnd(ending, tx),
  });
  const onRunEnd = createRunOutcomes({
    schedules: scheduling,
    schedule_keys: { pauseForBudget: async () => {} },
    deliverResults,
    log: createLog("silent"),
  });
});
afterAll(async () => {
  await node.notices.stop();
  await receiver.close();
  await db.close();
  await database.drop();
});
beforeEach(() => {
  receiver.received.length = 0;
});

type End = { status: "succeeded" | "failed" | "cancelled" | "lost"; output: string; crashes: boolean };
type Action =
  | ({ do: "end" } & End)
  | { do: "kill" }
  | { do: "due" }
  | { do: "age" }
  | { do: "rest" }
  | { do: "treat"; as: number };

const TREATMENTS: readonly Treatment[] = [
  204,
  204,
  500,
  410,
  302,
  (response) => response.destroy(), // received, and the answer is lost
];

const entries = fc.array(
  fc.record({
    on: fc.constantFrom<AgentDelivery["on"]>(["succeeded"], ["failed"], ["succeeded", "failed"]),
    unless: fc.constantFrom<AgentDelivery["unless"]>("unchanged", "unchanged", null),
  }),
  { minLength: 1, maxLength: 3 },
);
const end = fc.record({
  do: fc.constant("end" as const),
  status: fc.constantFrom<End["status"]>("succeeded", "succeeded", "succeeded", "failed", "cancelled", "lost"),
  output: fc.constantFrom("3 ships", "3  ships\n", "4 ships"),
  crashes: fc.boolean(),
});
const actions = fc.array(
  fc.oneof<fc.Arbitrary<Action>[]>(
    end,
    end,
    fc.constantFrom({ do: "kill" }, { do: "due" }, { do: "age" }, { do: "rest" }, { do: "rest" }),
    fc.record({ do: fc.constant("treat" as const), as: fc.nat(TREATMENTS.length - 1) }),
  ),
  { minLength: 5, maxLength: 30 },
);

/** Ends a run of the agent. A crash during its end leaves it at work, and then it ends for good. */
async function endRun({ status, output, crashes }: End): Promise<string> {
  const { id } = await scheduling.start({ ...agent, model_id: "lab/small" });
  const claimed = (await scheduling.claim("worker-1", 1, LIMITS))[0];
  if (claimed?.lease.run_id !== id) throw new Error("the new run was expected");
  const finish = async () => {
    if (status === "lost") {
      const text = "update run set attempt = 20, lease_until = now() - interval '1 second' where id = $1";
      await db.query({ text, values: [id] });
      return scheduling.takeBackAll();
    }
    const error = { code: "timeout", message: "late" };
    const outcome = { succeeded: { status, output }, failed: { status, error }, cancelled: { status } }[status];
    return scheduling.finishRun(claimed.lease, outcome as never);
  };
  if (crashes && status !== "cancelled") {
    crash_next = true;
    await expect(finish()).rejects.toThrow("crashed");
    crash_next = false;
    expect(await db.query({ text: "select from delivery where run_id = $1", values: [id] })).toEqual([]);
  }
  await finish();
  return id;
}

const pending = async () =>
  (await db.query({ text: "select from delivery where user_id = $1 and status = 'pending'", values: [agent.user_id] }))
    .length;
/** Waits until no delivery is claimed or due. */
const rest = () =>
  expect
    .poll(
      () =>
        db.query({
          text: `select from delivery where user_id = $1 and status = 'pending'
            and (next_attempt_at <= clock_timestamp() + interval '1 second' or last_status is null and last_error is null)`,
          values: [agent.user_id],
        }),
      { interval: 5 },
    )
    .toEqual([]);

async function carryOut(action: Action): Promise<void> {
  if (action.do === "kill") {
    const dead = node;
    dead.kill();
    node = await startNode();
    await dead.notices.stop();
    await makeDue(db); // its claims expire
  } else if (action.do === "due") {
    await rest();
    await makeDue(db);
  } else if (action.do === "age") {
    const text =
      "update delivery set queued_at = queued_at - interval '1 day' where user_id = $1 and status = 'pending'";
    await db.query({ text, values: [agent.user_id] });
    await makeDue(db);
  } else if (action.do === "rest") {
    await rest();
  } else if (action.do === "treat") {
    receiver.treat(TREATMENTS[action.as] ?? 204);
  }
}

interface Row {
  id: string;
  run_id: string;
  address: string;
  status: string;
  unless_unchanged: boolean;
  delivered_at: string | null;
}

test(
  "each result that an end matches is sent at least once under one id, skipped as unchanged, or failed with a notice",
  { timeout: 300_000 },
  () =>
    fc.assert(
      fc.asyncProperty(entries, actions, async (given, todo) => {
        agent = { user_id: newId(), agent_id: newId() };
        await insertAgent(db, agent);
        const deliveries: AgentDelivery[] = given.map((entry, nth) => ({ to: `${receiver.url}/${nth}`, ...entry }));
        const store = createAgentsStore(db);
        const row = await db.transaction((tx) => store.lockAgent(tx, agent.user_id, agent.agent_id));
        if (row === undefined) throw new Error("no agent");
        await db.transaction((tx) =>
          store.updateAgent(tx, { ...row, limits: { max_consecutive_failures: 100 } as never, deliveries }),
        );
        receiver.received.length = 0;
        receiver.treat(204);
        const ended: { run_id: string; end: End }[] = [];
        for (const action of todo) {
          if (action.do === "end") ended.push({ run_id: await endRun(action), end: action });
          else await carryOut(action);
        }
        receiver.treat(204);
        for (let turn = 0; (await pending()) > 0; turn += 1) {
          expect(turn).toBeLessThan(100);
          await makeDue(db);
          await rest();
        }
        await compare(ended, deliveries);
      }),
      { numRuns: RUNS },
    ),
);

async function compare(ended: readonly { run_id: string; end: End }[], deliveries: readonly AgentDelivery[]) {
  const rows = await db.query<Row>({
    text: `select id, run_id, address, status, unless_unchanged, delivered_at from delivery
      where user_id = $1 and run_id is not null order by delivered_at, id`,
    values: [agent.user_id],
  });
  const shown = ({ run_id, address }: Pick<Row, "run_id" | "address">) => `${run_id} ${address}`;
  const wanted = ended.flatMap(({ run_id, end: { status } }) =>
    deliveries
      .filter(({ on }) => on.some((name) => name === (status === "lost" ? "failed" : status)))
      .map(({ to }) => shown({ run_id, address: to })),
  );
  expect(rows.map(shown).sort()).toEqual(wanted.sort());

  const sent = Map.groupBy(receiver.received, ({ headers }) => headers["webhook-id"]);
  expect([...sent.keys()].filter((id) => rows.every((row) => row.id !== id))).toEqual([]);
  for (const row of rows) {
    const came = sent.get(row.id) ?? [];
    for (const { path, body } of came) {
      expect([receiver.url + path, JSON.parse(body).data.id]).toEqual([row.address, row.run_id]);
    }
    if (row.status === "delivered") expect(came.length).toBeGreaterThan(0);
    if (row.status === "skipped") expect(row.unless_unchanged).toBe(true);
  }

  const failed = rows.filter(({ status }) => status === "failed").map(({ id }) => id);
  const notices = await db.query<{ id: string }>({
    text: "select data->>'delivery_id' as id from notice where user_id = $1 and event = 'delivery.failed'",
    values: [agent.user_id],
  });
  expect(notices.map(({ id }) => id).sort()).toEqual(failed.sort());

  // In the order of their success, the outputs that an address got differ from one to the next; those that were skipped
  // had come before.
  const outputs = new Map(
    ended.map(({ run_id, end: { status, output } }) => [
      run_id,
      status === "succeeded" ? output.replaceAll(/\s/g, "") : null,
    ]),
  );
  for (const [, of_address] of Map.groupBy(rows, ({ address }) => address)) {
    const got = of_address
      .filter(({ status, run_id }) => status === "delivered" && outputs.get(run_id) !== null)
      .map(({ run_id }) => outputs.get(run_id));
    for (const { status, run_id } of of_address) {
      if (status === "skipped") expect(got).toContain(outputs.get(run_id));
    }
    if (of_address[0]?.unless_unchanged) {
      for (const [nth, output] of got.entries()) expect(output).not.toBe(got[nth - 1]);
    }
  }
}
