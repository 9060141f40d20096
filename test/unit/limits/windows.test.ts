import { expect, test } from "vitest";
import type { Ask } from "../../../src/gateway/limits/limits.store.ts";
import { createWindows } from "../../../src/gateway/limits/windows.ts";

/** Windows whose database gives each request two more ahead, and what reached the database. */
function recorded() {
  const asked: Ask[] = [];
  const database = { is_away: false };
  const windows = createWindows({
    async exchange(asks) {
      if (database.is_away) throw new Error("connect ECONNREFUSED");
      asked.push(...asks);
      const answer = { used: 0, slot: 1, frees_in_ms: 0 };
      return asks.map(({ place, needed }) => ({ place, granted: needed === 0 ? 0 : needed + 2, ...answer }));
    },
  });
  return { windows, database, asked };
}

test("the tokens of calls that end while the database is away are counted later", async () => {
  const { windows, database, asked } = recorded();
  await windows.mayBegin("tokens:user:u", 100);
  database.is_away = true;
  windows.spend("tokens:user:u", 5);
  await new Promise(setImmediate);
  database.is_away = false;
  windows.spend("tokens:user:u", 7);
  await windows.close();
  expect(asked.reduce((sum, { spent }) => sum + spent, 0)).toBe(12);
});

test("the tokens of a call that has ended count while they are sent to the database", async () => {
  const stored = Promise.withResolvers<void>();
  let used = 0;
  const windows = createWindows({
    async exchange(asks) {
      const spent = asks.reduce((sum, ask) => sum + ask.spent, 0);
      if (spent > 0) await stored.promise;
      used += spent;
      return asks.map(({ place }) => ({ place, granted: 0, used, slot: 1, frees_in_ms: 60_000 }));
    },
  });
  await windows.mayBegin("tokens:user:u", 20);
  windows.spend("tokens:user:u", 15);
  await new Promise(setImmediate);
  windows.spend("tokens:user:u", 15);
  const next = windows.mayBegin("tokens:user:u", 20);
  stored.resolve();
  expect(await next).toMatchObject({ granted: false, left: 0 });
  await windows.close();
  expect(used).toBe(30);
  expect(await windows.mayBegin("tokens:user:u", 31)).toMatchObject({ granted: true, left: 1 });
});

test("a node that stops returns the requests that it has taken ahead", async () => {
  const { windows, asked } = recorded();
  await windows.take("requests:key:k", 100);
  await windows.close();
  expect(asked.at(-1)).toMatchObject({ subject: "requests:key:k", returned: 2, slot: 1 });
});

test("a request that is counted by two limits gets both answers, also on an idle node", async () => {
  const { windows } = recorded();
  for (const subject of ["requests:key:k", "requests:user:u"]) {
    expect(await windows.take(subject, 100)).toMatchObject({ granted: true });
  }
});
