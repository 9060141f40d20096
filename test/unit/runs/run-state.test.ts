import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  CLAIMED,
  FINISHED,
  type RunTransition,
  sqlBefore,
  sqlNext,
  TRANSITIONS,
  UNFINISHED,
} from "../../../src/agents/runs/run-state.ts";
import { runStatusSchema } from "../../../src/api/contract/runs.ts";

const RUNS = join(import.meta.dirname, "../../../src/agents/runs");
const next = (transition: RunTransition): Record<string, string> => TRANSITIONS[transition].next;
const transitions = Object.keys(TRANSITIONS) as RunTransition[];
const edges = transitions.flatMap((transition) => Object.entries(next(transition)));

test("the table has exactly the statuses of the contract", () => {
  const statuses = new Set(edges.flat().filter((status) => status !== "new"));
  expect([...statuses].sort()).toEqual([...runStatusSchema.options].sort());
});

test("a final status never changes, and every other status leads to a final one", () => {
  const is_final = (status: string) => !UNFINISHED.some((unfinished) => unfinished === status);
  expect(edges.filter(([from]) => from !== "new" && is_final(from))).toEqual([]);
  for (const status of UNFINISHED) {
    const reached = new Set<string>([status]);
    for (const from of reached) for (const [start, to] of edges) if (start === from) reached.add(to);
    expect([...reached].some(is_final)).toBe(true);
  }
});

test("the final statuses are those for which the database requires finished_at", () => {
  const schema = readFileSync(join(RUNS, "../../../schema.sql"), "utf8");
  const constraint = /alter table run add constraint.*\(\(finished_at IS NOT NULL\) = \(status = ANY \((.*)\)\)\)/.exec(
    schema,
  );
  const statuses = [...(constraint?.[1] ?? "").matchAll(/'(\w+)'/g)].map(([, status]) => status);
  expect(statuses.sort()).toEqual([...FINISHED].sort());
});

test.each([
  ["run_open", UNFINISHED],
  ["run_leased", UNFINISHED],
  ["run_of_limited_key", CLAIMED],
])("the index %s has the statuses that its statements name", (index, statuses) => {
  const schema = readFileSync(join(RUNS, "../../../schema.sql"), "utf8");
  const list = new RegExp(`^CREATE INDEX ${index} ON.*WHERE .*status = ANY \\(ARRAY\\[(.*?)\\]`, "m").exec(schema)?.[1];
  const indexed = [...(list ?? "").matchAll(/'(\w+)'/g)].map(([, status]) => status);
  expect(indexed.sort()).toEqual([...statuses].sort());
});

test("each list of statuses in SQL has the statuses of claimed or of unfinished runs", () => {
  const lists = readdirSync(join(RUNS, "sql")).flatMap((file) =>
    [...readFileSync(join(RUNS, "sql", file), "utf8").matchAll(/status(?: \|\| '')? in \(([^)]*)\)/g)]
      .map(([, list]) => [...(list ?? "").matchAll(/'(\w+)'/g)].map(([, status]) => status))
      // A subscription has other statuses.
      .filter((statuses) => statuses.some((status) => runStatusSchema.options.some((known) => known === status))),
  );
  expect(lists.length).toBeGreaterThan(5);
  for (const statuses of lists) expect([[...CLAIMED].sort(), [...UNFINISHED].sort()]).toContainEqual(statuses.sort());
});

test("only a claimed run can be changed with its lease", () => {
  const of_lease = transitions.filter((transition) => TRANSITIONS[transition].by === "lease");
  for (const transition of of_lease) expect(Object.keys(next(transition)).sort()).toEqual([...CLAIMED].sort());
});

test("SQL of a transition names each of its statuses", () => {
  expect(sqlNext("cancel")).toBe(
    "case run.status when 'queued' then 'cancelled' when 'running' then 'cancelling' when 'cancelling' then 'cancelling' end",
  );
});

test.each(transitions)("SQL of %s names each status before and after it", (transition) => {
  for (const [from, to] of Object.entries(next(transition))) {
    expect(sqlNext(transition)).toContain(` when '${from}' then '${to}' `);
    expect(sqlBefore(transition)).toContain(`'${from}'`);
  }
});

test("stores take the statuses of waiting and running runs from the table, so that none misses a new one", () => {
  const stores = readdirSync(RUNS).filter((file) => file.endsWith(".store.ts"));
  const literal = /(?<!step\.)\bstatus (?:=|<>|in|not in) \(?'(?:queued|running)'/;
  const lines = stores.flatMap((file) => readFileSync(join(RUNS, file), "utf8").split("\n"));
  expect(stores.length).toBeGreaterThan(5);
  expect(lines.filter((line) => literal.test(line))).toEqual([]);
});

/** The transitions that a file of SQL makes. */
const MADE_BY: Record<string, RunTransition[]> = {
  "begin_runs.sql": ["begin"],
  "claim_runs.sql": ["claim"],
  "finish_steps.sql": ["succeed"],
};

/** The values that the text assigns to run.status. */
function assigned(text: string): string[] {
  const updates = [...text.matchAll(/update run set([\s\S]*?)\n\s*(?:from|where|returning)\b/g)].map(
    ([, set]) => set ?? "",
  );
  const inserts = [...text.matchAll(/insert into run \(([^)]*)\)\s*select([\s\S]*?)\n\s*from/g)]
    .filter(([, columns]) => /\bstatus\b/.test(columns ?? ""))
    .map(([, , values]) => `status = ${values}`);
  const writes = [...updates, ...inserts].filter((set) => /\bstatus = /.test(set));
  return writes.map((set) => set.slice(set.indexOf("status = ")));
}

test.each(readdirSync(join(RUNS, "sql")))("%s writes only the statuses of its row in the table", (file) => {
  const writes = assigned(readFileSync(join(RUNS, "sql", file), "utf8"));
  const made = MADE_BY[file] ?? [];
  expect(writes.length > 0).toBe(made.length > 0);
  const targets = made.flatMap((transition) => Object.values(next(transition)));
  const sources = made.flatMap((transition) => Object.keys(next(transition)));
  for (const write of writes) {
    const literals = [...write.matchAll(/'(\w+)'/g)].map(([, literal]) => literal ?? "");
    const statuses = literals.filter((literal) => runStatusSchema.options.some((status) => status === literal));
    expect([...targets, ...sources]).toEqual(expect.arrayContaining(statuses));
    expect(statuses.some((status) => targets.includes(status))).toBe(true);
  }
});
