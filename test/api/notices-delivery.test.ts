import type { ServerResponse } from "node:http";
import { Webhook } from "standardwebhooks";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type ClaimedDelivery, createDeliveryStore } from "../../src/account/notices/delivery.store.ts";
import type { Notices } from "../../src/account/notices/notices.service.ts";
import { createNoticesStore } from "../../src/account/notices/notices.store.ts";
import type { NoticeDelivery } from "../../src/api/contract/notices.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { failedRun, makeDue, noticesNode } from "../support/notices.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";

let database: TestDatabase;
let db: Db;
let receiver: Receiver;
let user_id: string;
let nodes: Notices[];
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
});
afterAll(async () => {
  await db.close();
  await database.drop();
});
beforeEach(async () => {
  receiver = await startReceiver();
  user_id = newId();
  nodes = [];
});
afterEach(async () => {
  for (const node of nodes) await node.stop();
  await db.query({ text: "truncate webhook_endpoint, notice, delivery" });
  await receiver.close();
});

/** A node that delivers until the test's end. Its private network includes the test's receiver. */
async function startNode(options: Parameters<typeof noticesNode>[1] = {}): Promise<Notices> {
  const node = noticesNode(db, { allow: [receiver.host], ...options });
  await node.start();
  nodes.push(node);
  return node;
}

const endpoint = async (node: Notices, path = "/hook", base = receiver.url) => {
  const { id, secret } = await node.createEndpoint(user_id, { url: base + path, events: ["run.failed"] });
  return { id, secret: secret ?? "" };
};
const latest = async (node: Notices): Promise<NoticeDelivery | undefined> =>
  (await node.list(user_id, { event: null, limit: 1, before_id: null }))[0]?.deliveries[0];
/** The latest notice's delivery, once it matches. */
const untilDelivery = (node: Notices, expected: Partial<NoticeDelivery>) =>
  expect.poll(() => latest(node), { interval: 10 }).toMatchObject(expected);

describe("a delivery", () => {
  it("can be verified by the Standard Webhooks library with the shown secret, and has the event's data", async () => {
    const node = await startNode();
    const { secret } = await endpoint(node);
    const notice = failedRun(user_id);
    await node.emit(notice);
    await receiver.until(1);
    const { headers, body } = receiver.received[0] ?? {};
    const verified = new Webhook(secret).verify(body ?? "", headers ?? {});
    const [listed] = await node.list(user_id, { event: null, limit: 1, before_id: null });
    expect(verified).toEqual({ type: "run.failed", timestamp: listed?.created_at, data: notice.data });
    expect(headers).toMatchObject({ "webhook-id": listed?.id, "content-type": "application/json" });
    await untilDelivery(node, { status: "delivered", attempts: 1, last_status: 204, next_attempt_at: null });
  });

  it("is retried after errors and disconnections with the same webhook-id until 2xx, and then no more", async () => {
    const node = await startNode();
    const { secret } = await endpoint(node);
    receiver.treat(500, (response) => response.destroy(), 429, 200);
    await node.emit(failedRun(user_id));
    const outcomes = [
      { last_status: 500, last_error: null },
      { last_status: null, last_error: "connect_failed" },
      { last_status: 429, last_error: null },
    ];
    for (const [index, outcome] of outcomes.entries()) {
      await untilDelivery(node, { status: "pending", attempts: index + 1, delivered_at: null, ...outcome });
      await makeDue(db);
    }
    await untilDelivery(node, { status: "delivered", attempts: 4, last_status: 200 });
    await makeDue(db);
    expect(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    expect(receiver.received).toHaveLength(4);
    for (const { headers, body } of receiver.received) new Webhook(secret).verify(body, headers);
  });

  it("is retried for the first time 5 seconds after a failure", async () => {
    const node = await startNode();
    await endpoint(node);
    receiver.treat(500);
    await node.emit(failedRun(user_id));
    await untilDelivery(node, { status: "pending", last_status: 500 });
    const { last_attempt_at, next_attempt_at } = (await latest(node)) ?? {};
    const wait_ms = Date.parse(next_attempt_at ?? "") - Date.parse(last_attempt_at ?? "");
    expect(wait_ms).toBeGreaterThanOrEqual(5000);
    expect(wait_ms).toBeLessThan(10_000);
  });

  it("that has been retried for a day is failed", async () => {
    const node = noticesNode(db, { allow: [receiver.host] });
    await endpoint(node);
    receiver.treat(500);
    await node.emit(failedRun(user_id));
    await db.query({
      text: "update delivery set attempts = 10, queued_at = queued_at - interval '85355 seconds' where user_id = $1",
      values: [user_id],
    });
    await node.start();
    nodes.push(node);
    await untilDelivery(node, { status: "failed", attempts: 11, next_attempt_at: null });
  });

  it("follows no redirect: the payload and its signature go only to the user's address", async () => {
    const node = await startNode();
    await endpoint(node);
    receiver.treat((response) => response.writeHead(307, { location: `${receiver.url}/elsewhere` }).end());
    await node.emit(failedRun(user_id));
    await untilDelivery(node, { status: "pending", last_status: 307 });
    expect(receiver.received.map(({ path }) => path)).toEqual(["/hook"]);
  });

  it("is not sent to a name that resolves to a private address, nor over http once the operator forbids it", async () => {
    const allowing = noticesNode(db, { allow: [receiver.host] });
    await endpoint(allowing);
    const node = await startNode({ allow: [], resolve: async () => ["10.0.0.5"] });
    await node.emit(failedRun(user_id));
    await untilDelivery(node, { status: "pending", last_status: null, last_error: "egress_refused" });
    await endpoint(node, "/", "https://hooks.example.com");
    await node.emit(failedRun(user_id));
    const errorsOf = async () =>
      (await node.list(user_id, { event: null, limit: 1, before_id: null }))[0]?.deliveries.map(
        (each) => each.last_error,
      );
    await expect.poll(errorsOf).toEqual(["egress_refused", "egress_refused"]);
    expect(receiver.received).toEqual([]);
  });

  it("with the answer 410 disables the endpoint and ends its queued deliveries", async () => {
    const node = noticesNode(db, { allow: [receiver.host] });
    const { id } = await endpoint(node);
    receiver.treat(410);
    for (let index = 0; index < 3; index += 1) await node.emit(failedRun(user_id));
    await node.start();
    nodes.push(node);
    const states = async () =>
      (await node.list(user_id, { event: null, limit: 9, before_id: null })).map(
        ({ deliveries }) => deliveries[0]?.status,
      );
    await expect.poll(states).toEqual(["failed", "failed", "failed"]);
    const endpoints = () => node.endpoints(user_id, { limit: 9, before_id: null });
    await expect.poll(endpoints).toMatchObject([{ id, status: "disabled" }]);
    expect((await endpoints())[0]?.disabled_at).not.toBeNull();
    const before = receiver.received.length;
    await node.emit(failedRun(user_id));
    expect((await node.list(user_id, { event: null, limit: 1, before_id: null }))[0]?.deliveries).toEqual([]);
    expect(receiver.received).toHaveLength(before);
  });

  it("whose secret cannot be opened without its master key is not sent unsigned", async () => {
    const node = await startNode({ key: Buffer.alloc(32) });
    await endpoint(noticesNode(db, { allow: [receiver.host] }));
    await node.emit(failedRun(user_id));
    await untilDelivery(node, { status: "pending", last_error: "secret_unreadable" });
    expect(receiver.received).toEqual([]);
  });

  it("to an endpoint that hangs does not delay others, and is released when the node stops", async () => {
    const hanging = await startReceiver();
    hanging.treat(() => {});
    const node = await startNode({ allow: [receiver.host, hanging.host] });
    await endpoint(node, "/", hanging.url);
    for (let index = 0; index < 20; index += 1) await node.emit(failedRun(user_id));
    await hanging.until(1);
    await endpoint(node);
    for (let index = 0; index < 20; index += 1) await node.emit(failedRun(user_id));
    // A claim ends a minute from now. The second allows for a correction of the clock.
    const count = async (status: string) => {
      const [row] = await db.query<{ count: number }>({
        text: `select count(*) from delivery where user_id = $1 and status = $2
          and (next_attempt_at is null or next_attempt_at <= clock_timestamp() + interval '1 second')`,
        values: [user_id, status],
      });
      return row?.count;
    };
    await expect.poll(() => count("delivered")).toBe(20);
    expect([hanging.received.length, await count("pending")]).toEqual([1, 39]);
    await node.stop();
    expect(await count("pending")).toBe(40);
    await hanging.close();
  });

  it("of a user without deliveries in progress comes before more deliveries to other users' hanging endpoints", async () => {
    const held: ServerResponse[] = [];
    receiver.treat((response, { path }) => (path === "/hang" ? held.push(response) : response.writeHead(204).end()));
    const node = noticesNode(db, { allow: [receiver.host] });
    for (const id of Array.from({ length: 4 }, newId)) {
      const wanted = { url: `${receiver.url}/hang`, events: ["run.failed" as const] };
      for (let index = 0; index < 10; index += 1) await node.createEndpoint(id, wanted);
      await node.emit(failedRun(id));
    }
    await node.start();
    nodes.push(node);
    await receiver.until(32);
    await endpoint(node);
    await node.emit(failedRun(user_id));
    held[0]?.writeHead(204).end();
    await receiver.until(33);
    expect(receiver.received[32]?.path).toBe("/hook");
  });

  it("is sent once by two nodes that share the work", async () => {
    const other_db = database.kind === "postgres" ? await database.open() : db;
    const second = noticesNode(other_db, { allow: [receiver.host] });
    await second.start();
    const first = await startNode();
    const paths = ["/a", "/b", "/c", "/d", "/e"];
    for (const path of paths) await endpoint(first, path);
    await Promise.all(Array.from({ length: 20 }, () => first.emit(failedRun(user_id))));
    await receiver.until(100);
    const pending = async () => {
      const [row] = await db.query<{ count: number }>({
        text: "select count(*) from delivery where user_id = $1 and status = 'pending'",
        values: [user_id],
      });
      return row?.count;
    };
    await expect.poll(pending).toBe(0);
    const tries = receiver.received.map(({ path, headers }) => `${path} ${headers["webhook-id"]}`);
    expect(tries).toHaveLength(100);
    expect(new Set(tries).size).toBe(100);
    await second.stop();
    if (other_db !== db) await other_db.close();
  });

  it("takes no result of a try whose claim has expired", async () => {
    const node = noticesNode(db, { allow: [receiver.host] });
    await endpoint(node);
    await node.emit(failedRun(user_id));
    const store = createDeliveryStore(db);
    const claim = async () => (await store.claim({ most: 1, at_work: [], claim_s: 60 }))[0] as ClaimedDelivery;
    const late = await claim();
    await makeDue(db);
    const present = await claim();
    await store.settle(db, late, { status: 204, error: null }, { outcome: "delivered" });
    expect(await latest(node)).toMatchObject({ status: "pending", attempts: 2, last_status: null });
    await store.settle(db, present, { status: 500, error: null }, { outcome: "failed" });
    expect(await latest(node)).toMatchObject({ status: "failed", last_status: 500 });
  });

  it("to a deleted endpoint is no longer sent, also if it was queued", async () => {
    const node = noticesNode(db, { allow: [receiver.host] });
    const { id } = await endpoint(node);
    await node.emit(failedRun(user_id));
    await node.deleteEndpoint(user_id, id);
    const spare = await node.createEndpoint(user_id, { url: `${receiver.url}/spare`, events: ["run.failed"] });
    await node.emit(failedRun(user_id));
    await node.start();
    nodes.push(node);
    await untilDelivery(node, { endpoint_id: spare.id, status: "delivered" });
    expect(receiver.received.map(({ path }) => path)).toEqual(["/spare"]);
  });
});

describe("a notice", () => {
  it("is sent once if the same event is reported twice, also at the same time", async () => {
    const node = await startNode();
    await endpoint(node);
    const notice = failedRun(user_id);
    await Promise.all(Array.from({ length: 5 }, () => node.emit(notice)));
    await node.emit(notice);
    await untilDelivery(node, { status: "delivered" });
    expect(await node.list(user_id, { event: null, limit: 9, before_id: null })).toHaveLength(1);
    expect(receiver.received).toHaveLength(1);
  });

  it("with the same key for another user or another event is another notice", async () => {
    const node = noticesNode(db);
    const stranger = newId();
    const run_id = newId();
    await node.emit(failedRun(user_id, run_id));
    await node.emit(failedRun(stranger, run_id));
    await node.emit({
      user_id,
      event: "schedule.paused",
      dedupe_key: run_id,
      data: { agent_id: run_id, schedule_id: run_id, schedule_name: "default", reason: "x" },
    });
    expect(await node.list(user_id, { event: null, limit: 9, before_id: null })).toHaveLength(2);
    expect(await node.list(stranger, { event: null, limit: 9, before_id: null })).toHaveLength(1);
  });

  it("in a transaction is sent if, and only if, the transaction commits", async () => {
    const node = await startNode();
    await endpoint(node);
    const undone = db.transaction(async (tx) => {
      await node.emit(failedRun(user_id), tx);
      throw new Error("undone");
    });
    await expect(undone).rejects.toThrow("undone");
    expect(await node.list(user_id, { event: null, limit: 9, before_id: null })).toEqual([]);
    await db.transaction((tx) => node.emit(failedRun(user_id), tx));
    await untilDelivery(node, { status: "delivered" });
    expect(receiver.received).toHaveLength(1);
  });

  it("is sent only to the endpoints that subscribe to its event", async () => {
    const node = await startNode();
    await node.createEndpoint(user_id, { url: `${receiver.url}/paused`, events: ["schedule.paused"] });
    await endpoint(node, "/failed");
    await node.createEndpoint(user_id, { url: `${receiver.url}/both`, events: ["schedule.paused", "run.failed"] });
    await node.emit(failedRun(user_id));
    await receiver.until(2);
    expect(receiver.received.map(({ path }) => path).sort()).toEqual(["/both", "/failed"]);
  });

  it("is deleted after 90 days", async () => {
    const node = noticesNode(db);
    await node.emit(failedRun(user_id));
    await node.emit(failedRun(user_id));
    await db.query({
      text: `update notice set created_at = created_at - interval '91 days'
        where user_id = $1 and id = (select id from notice where user_id = $1 order by id limit 1)`,
      values: [user_id],
    });
    await node.sweep();
    expect(await node.list(user_id, { event: null, limit: 9, before_id: null })).toHaveLength(1);
  });

  it("is deleted beyond a user's newest ones", async () => {
    const node = noticesNode(db);
    const other_id = newId();
    for (const id of [user_id, user_id, user_id, other_id]) await node.emit(failedRun(id));
    const [newest, second] = await node.list(user_id, { event: null, limit: 9, before_id: null });
    await createNoticesStore(db).deleteBeyond(2);
    expect(await node.list(user_id, { event: null, limit: 9, before_id: null })).toEqual([newest, second]);
    expect(await node.list(other_id, { event: null, limit: 9, before_id: null })).toHaveLength(1);
  });

  it("is deleted when its user is erased, and no endpoint's secret is stored in plain text", async () => {
    const node = noticesNode(db, { allow: [receiver.host] });
    const { id, secret } = await endpoint(node);
    await node.emit(failedRun(user_id));
    const [row] = await db.query<{ secret: Uint8Array }>({
      text: "select secret from webhook_endpoint where id = $1",
      values: [id],
    });
    const stored = Buffer.from(row?.secret ?? []);
    expect(stored.includes(secret)).toBe(false);
    expect(stored.includes(Buffer.from(secret.slice("whsec_".length), "base64"))).toBe(false);
    await db.transaction((tx) => node.forgetUser(tx, user_id));
    for (const table of ["webhook_endpoint", "notice", "delivery"]) {
      const rows = await db.query({ text: `select from ${table} where user_id = $1`, values: [user_id] });
      expect(rows, table).toEqual([]);
    }
  });
});
