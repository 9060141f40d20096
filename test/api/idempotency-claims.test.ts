import { randomBytes } from "node:crypto";
import { Hono } from "hono";
import { describe, expect, it } from "vitest";
import type { Caller, HttpEnv } from "../../src/api/contract/caller.ts";
import { createIdempotencyStore } from "../../src/api/http/idempotency.store.ts";
import { idempotency } from "../../src/api/http/idempotency.ts";
import { createCipher } from "../../src/platform/lib/cipher.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { stableDigest } from "../../src/platform/lib/json.ts";
import { createLog, type Log } from "../../src/platform/telemetry/log.ts";
import { createTestDatabase } from "../support/database.ts";

// The claim of an Idempotency-Key while its request runs, and after its end.

const withKey = (key: string) => ({ "Idempotency-Key": key });

describe("the claim of a running request", () => {
  it("is renewed until the answer is stored, so that the same request never runs twice on running nodes", async () => {
    const database = await createTestDatabase();
    const db = await database.open();
    const clock = { now: () => new Date().toISOString() };
    const store = createIdempotencyStore({ db, clock, cipher: createCipher(randomBytes(32), "idempotency") });
    const lapse = () => db.query({ text: "update idempotency_key set locked_until = now() - interval '1 second'" });
    const isHeld = async () =>
      (await db.query({ text: "select from idempotency_key where locked_until > now() + interval '900 seconds'" }))
        .length === 1;
    const running = Promise.withResolvers<void>();
    const streamed = Promise.withResolvers<void>();
    let runs = 0;
    const app = new Hono<HttpEnv>();
    app.use(async (c, next) => {
      c.set("caller", { user_id: "0199c0de-0000-7000-8000-000000000001", api_key_id: null } as Caller);
      await next();
    });
    app.use(idempotency(store, createLog("silent"), 5));
    app.post("/", async () => {
      runs += 1;
      await running.promise;
      const body = new ReadableStream<Uint8Array>({
        async pull(controller) {
          await streamed.promise;
          controller.enqueue(Buffer.from("data: end\n\n"));
          controller.close();
        },
      });
      return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
    });
    const send = () => app.request("/", { method: "POST", body: "{}", headers: withKey("long") });

    const first = send();
    await expect.poll(isHeld).toBe(true);
    await lapse();
    await expect.poll(isHeld, { message: "while it runs" }).toBe(true);
    running.resolve();
    const answer = await first;
    await lapse();
    await expect.poll(isHeld, { message: "while it streams" }).toBe(true);
    await expect(store.renew({ user_id: newId(), key: "long" })).resolves.toBe(false);
    streamed.resolve();
    const text = await answer.text();
    await lapse();
    const replayed = await send();
    expect([replayed.headers.get("idempotent-replayed"), await replayed.text(), runs]).toEqual(["true", text, 1]);
    expect(await isHeld(), "an answered key is not renewed").toBe(false);
  });
});

describe("a stream that fails without an error event", () => {
  it.each([
    ["before its first event frees the key", [], "first"],
    ["later is replayed up to the failure", ["data: one\n\n"], "answered"],
  ])("%s", async (_, sent, state) => {
    const database = await createTestDatabase();
    const db = await database.open();
    const cipher = createCipher(randomBytes(32), "idempotency");
    const store = createIdempotencyStore({ db, clock: createSystemClock(), cipher });
    const user_id = newId();
    const app = new Hono<HttpEnv>();
    app.use(async (c, next) => {
      c.set("caller", { user_id, api_key_id: null } as Caller);
      await next();
    });
    app.use(idempotency(store, { error: () => {} } as unknown as Log));
    app.post("/", (c) => {
      const left = [...sent];
      const source = new ReadableStream<Uint8Array>({
        pull(controller) {
          const text = left.shift();
          if (text === undefined) controller.error(new Error("broken"));
          else controller.enqueue(Buffer.from(text));
        },
      });
      return c.body(source, 200, { "content-type": "text/event-stream" });
    });
    const answer = await app.request("/", { method: "POST", headers: withKey("f"), body: "{}" });
    await expect(answer.text()).rejects.toThrow("broken");
    const request = Buffer.from(["POST", "/", "", stableDigest({})].join("\n"));
    expect((await store.claim({ user_id, key: "f", request })).state).toBe(state);
    await db.close();
    await database.drop();
  });
});
