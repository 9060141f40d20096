import { expect, test } from "vitest";
import { createGroupCommit } from "../../../src/account/ledger/group-commit.ts";

const refusal = Object.assign(new Error("a check failed"), { code: "23514" });

function recorded(apply: (batch: string[], call: number) => void, size_limit = 100, retry_ms = [0]) {
  const batches: string[][] = [];
  const { commit, beginStop } = createGroupCommit<string, string>({
    apply: async (batch) => {
      batches.push(batch);
      await null;
      apply(batch, batches.length);
      return batch.map((operation) => `${operation} done`);
    },
    size_limit,
    retry_ms,
    isLasting: (operation) => operation.startsWith("settle"),
  });
  return { batches, commit, beginStop };
}

test("operations that queue during a batch are the next batch, limited in size and in order", async () => {
  const { batches, commit } = recorded(() => {}, 3);
  const first = commit("a");
  const rest = ["b", "c", "d", "e"].map((name) => commit(name));
  expect(await first).toBe("a done");
  expect(await Promise.all(rest)).toEqual(["b done", "c done", "d done", "e done"]);
  expect(batches).toEqual([
    ["a", "b", "c"],
    ["d", "e"],
  ]);
});

test.each([
  ["the database refuses", refusal],
  ["cannot be written as JSON", new RangeError("Maximum call stack size exceeded")],
])("an operation that %s fails alone, without a retry; the rest of its batch succeeds", async (_why, error) => {
  const { batches, commit } = recorded((batch) => {
    if (batch.includes("poison")) throw error;
  });
  const outcomes = await Promise.allSettled(["a", "b", "poison", "c", "d"].map((name) => commit(name)));
  expect(outcomes.map(({ status }) => status)).toEqual([
    "fulfilled",
    "fulfilled",
    "rejected",
    "fulfilled",
    "fulfilled",
  ]);
  expect(batches.map((batch) => batch.length)).toEqual([5, 3, 2, 1, 2]);
});

test("a batch whose answer was lost is sent again unchanged", async () => {
  const { batches, commit } = recorded((_, call) => {
    if (call === 1) throw new Error("Connection terminated unexpectedly");
  });
  expect(await Promise.all([commit("a"), commit("b")])).toEqual(["a done", "b done"]);
  expect(batches).toEqual([
    ["a", "b"],
    ["a", "b"],
  ]);
});

test("a database out of reach fails the whole batch after two calls, and the next batch is sent", async () => {
  const { batches, commit } = recorded((_, call) => {
    if (call <= 2) throw Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
  });
  const outcomes = await Promise.allSettled(["a", "b", "c"].map((name) => commit(name)));
  expect(outcomes.every(({ status }) => status === "rejected")).toBe(true);
  expect(batches.length).toBe(2);
  expect(await commit("d")).toBe("d done");
});

test("a batch is retried with pauses while the database is away for a short time", async () => {
  const { batches, commit } = recorded(
    (_, call) => {
      if (call <= 3) throw Object.assign(new Error("terminating connection"), { code: "57P01" });
    },
    100,
    [0, 1, 1],
  );
  expect(await commit("a")).toBe("a done");
  expect(batches.length).toBe(4);
});

test("an operation that lost a deadlock succeeds when it is sent again", async () => {
  const { batches, commit } = recorded((_, call) => {
    if (call === 1) throw Object.assign(new Error("deadlock detected"), { code: "40P01" });
  });
  expect(await commit("a")).toBe("a done");
  expect(batches).toEqual([["a"], ["a"]]);
});

test.each(["EPIPE", "EBADF"])("%s is no answer of the database, so the batch is sent again", async (code) => {
  const { batches, commit } = recorded((_, call) => {
    if (call <= 2) throw Object.assign(new Error("write failed"), { code });
  });
  expect(await Promise.all([commit("settle 1"), commit("settle 2")])).toEqual(["settle 1 done", "settle 2 done"]);
  expect(batches).toEqual(Array(3).fill(["settle 1", "settle 2"]));
});

test.each([
  ["idle_in_transaction_session_timeout", "25P03"],
  ["transaction_timeout", "25P04"],
  ["a standby that was not promoted yet", "25006"],
])("a charge that fails with %s is retried", async (_, code) => {
  const { batches, commit } = recorded((_batch, call) => {
    if (call === 1) throw Object.assign(new Error("terminating connection"), { code });
  });
  expect(await Promise.all([commit("settle"), commit("b")])).toEqual(["settle done", "b done"]);
  expect(batches).toHaveLength(2);
});

const away = Object.assign(new Error("refused"), { code: "ECONNREFUSED" });

test("a charge waits for an absent database without a limit; the rest of its batch fails", async () => {
  const { batches, commit } = recorded((_, call) => {
    if (call <= 20) throw away;
  });
  const outcomes = await Promise.allSettled(["hold", "settle 1", "settle 2"].map((name) => commit(name)));
  expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
  expect(batches.at(-1)).toEqual(["settle 1", "settle 2"]);
});

test("a charge fails alone if the database rejects it", async () => {
  const { commit } = recorded((batch) => {
    if (batch.includes("settle poison")) throw refusal;
  });
  const outcomes = await Promise.allSettled(["settle poison", "settle 1"].map((name) => commit(name)));
  expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
});

test("a process that stops retries waiting charges a last time, at once", async () => {
  const one = recorded(() => {
    throw away;
  });
  const lost = one.commit("settle 1");
  const other = recorded(
    (_, call) => {
      if (call === 1) throw away;
    },
    100,
    [60_000],
  );
  const saved = other.commit("settle 1");
  await expect.poll(() => other.batches.length).toBe(1);
  one.beginStop();
  other.beginStop();
  await expect(lost).rejects.toThrow("refused");
  expect(await saved).toBe("settle 1 done");
  expect(other.batches.length).toBe(2);
});
