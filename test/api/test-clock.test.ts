import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { billingErrors } from "../../src/account/billing/errors.ts";
import { errors } from "../../src/kernel/errors.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createSettableClock } from "../../src/platform/db/settable-clock.ts";
import type { DueSource } from "../../src/platform/db/sweeper.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const START = "2026-03-01T00:00:00.000Z";
const DUE = "2026-03-01T09:00:00.000Z";

let database: TestDatabase;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});

describe("setting the clock (contract 8)", () => {
  it("waits for the runs of an instant that a sweep at the same time is still carrying out", async () => {
    const clock = await createSettableClock({ db, start: START, log: createLog("silent") });
    const happened: string[] = [];
    let tries = 0;
    let open = true;
    // The sweep has locked the row, and queues a run at its commit. Until then the clock does not see it.
    const swept: DueSource = {
      name: "swept",
      nextDueAt: async (until) => (open && DUE <= until ? DUE : null),
      carryOut: async () => {
        if (!open || clock.now() < DUE) return;
        tries += 1;
        if (tries < 3) return;
        open = false;
        happened.push("queued");
      },
    };
    const idle = async () => {
      happened.push(open ? "idle" : "run awaited");
      return true;
    };
    await clock.advanceTo(DUE, [swept], idle);
    expect(clock.now()).toBe(DUE);
    expect(happened).toEqual(["idle", "queued", "run awaited"]);
    await clock.stop();
  });

  it("goes on where a payment provider fails, and stops at a fault of the service", async () => {
    const now = "2026-03-02T00:00:00.000Z";
    const clock = await createSettableClock({ db, start: START, log: createLog("silent") });
    const setWith = (...failures: Error[]) => {
      const carryOut = () => Promise.reject(new AggregateError(failures));
      return clock.advanceTo(now, [{ name: "orders", nextDueAt: async () => null, carryOut }], async () => true);
    };
    await setWith(errors.upstream("Stripe does not answer."), billingErrors.paymentFailed("The card was declined."));
    expect(clock.now()).toBe(now);
    await expect(setWith(errors.upstream("Stripe does not answer."), new TypeError("a fault"))).rejects.toThrow();
    await clock.stop();
  });
});
