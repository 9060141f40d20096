import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { Answer, SentRequest } from "../../src/api/contract/endpoint.ts";
import { createIdempotencyStore } from "../../src/api/http/idempotency.store.ts";
import { createIdempotency } from "../../src/api/http/idempotency.ts";
import { createCipher } from "../../src/platform/lib/cipher.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { stableDigest } from "../../src/platform/lib/json.ts";
import { createLog, type Log } from "../../src/platform/telemetry/log.ts";
import { createTestDatabase } from "../support/database.ts";

// The claim of an Idempotency-Key while its request runs, and after its end.

const USER = "0199c0de-0000-7000-8000-000000000001";
/** A request with this Idempotency-Key. */
const requestWith = (key: string, user_id = USER) =>
  ({
    method: "POST",
    path: "/",
    route: "/",
    params: {},
    facts: {},
    operator: null,
    header: (name: string) => (name === "idempotency-key" ? key : undefined),
    caller: { user_id, api_key_id: null },
    sent_value: {},
    keeping: {},
  }) as unknown as SentRequest;
const rethrow = (error: unknown): never => {
  throw error;
};
const live = { refused: new AbortController().signal, check: async () => {}, leave: () => {} };
/** A stream of the events that `next` returns, to its first undefined. */
function events(next: () => Promise<string | undefined>): Answer {
  const feed = {
    async next() {
      const value = await next();
      return value === undefined ? { done: true as const, value } : { done: false as const, value };
    },
    leave: () => {},
  };
  return { kind: "events", feed, listener: { live, request_id: "r" } };
}
async function textOf(answer: Answer): Promise<string> {
  if (answer.kind === "bytes") return answer.body.toString();
  if (answer.kind !== "events") throw new Error(answer.kind);
  let text = "";
  for (let step = await answer.feed.next(); step.done !== true; step = await answer.feed.next()) text += step.value;
  return text;
}
const headerOf = (answer: Answer, name: string) => ("headers" in answer ? answer.headers?.[name] : undefined);

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
    const answerOnce = createIdempotency({ store, log: createLog("silent"), renew_ms: 5 });
    const send = () =>
      answerOnce(
        requestWith("long"),
        async () => {
          runs += 1;
          await running.promise;
          const texts = ["event: message_stop\ndata: {}\n\n"];
          return events(async () => {
            await streamed.promise;
            return texts.shift();
          });
        },
        rethrow,
      );

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
    const text = await textOf(answer);
    await lapse();
    const replayed = await send();
    expect([headerOf(replayed, "Idempotent-Replayed"), await textOf(replayed), runs]).toEqual(["true", text, 1]);
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
    const answerOnce = createIdempotency({ store, log: { error: () => {} } as unknown as Log });
    const left = [...sent];
    const failing = async () => {
      const text = left.shift();
      if (text === undefined) throw new Error("broken");
      return text;
    };
    const answer = await answerOnce(requestWith("f", user_id), async () => events(failing), rethrow);
    await expect(textOf(answer)).rejects.toThrow("broken");
    const request = Buffer.from(["POST", "/", "", stableDigest({})].join("\n"));
    expect((await store.claim({ user_id, key: "f", request })).state).toBe(state);
    await db.close();
    await database.drop();
  });
});
