import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  type RunTransition,
  SUSPENSIONS,
  sqlBefore,
  sqlNext,
  TRANSITIONS,
} from "../../../src/agents/runs/run-state.ts";
import { RUN_STATUSES, type RunPhase, type RunStatus, runStatusSchema } from "../../../src/api/contract/runs.ts";

const RUNS = join(import.meta.dirname, "../../../src/agents/runs");
const next = (transition: RunTransition): Record<string, string> => TRANSITIONS[transition].next;
const transitions = Object.keys(TRANSITIONS) as RunTransition[];
const suspensions = SUSPENSIONS.map((status) => ["running", status]);
const edges = [...transitions.flatMap((transition) => Object.entries(next(transition))), ...suspensions];
const inPhase = (phase: RunPhase) =>
  runStatusSchema.options.filter((status) => RUN_STATUSES[status].phase === phase).sort();
const SCHEMA = readFileSync(join(RUNS, "../../../schema.sql"), "utf8");

test("the column phase has the table of the contract: each status with its phase, and no other", () => {
  const column = /^ {2}phase text generated always as \(([\s\S]*?)\) STORED/im.exec(SCHEMA)?.[1] ?? "";
  const rows = [...column.matchAll(/'(\w+)'(?:::text)? THEN '(\w+)'/gi)].map(([, status, phase]) => [status, phase]);
  expect(Object.fromEntries(rows)).toEqual(
    Object.fromEntries(Object.entries(RUN_STATUSES).map(([status, { phase }]) => [status, phase])),
  );
  expect(column).not.toMatch(/\belse\b(?! null)/i);
});

test("the transitions reach exactly the statuses of the contract", () => {
  const statuses = new Set(edges.flat().filter((status) => status !== "new"));
  expect([...statuses].sort()).toEqual([...runStatusSchema.options].sort());
});

test("a final status never changes, and every other status leads to a final one", () => {
  const isFinal = (status: string) => RUN_STATUSES[status as RunStatus]?.phase === "ended";
  expect(edges.filter(([from]) => from !== "new" && isFinal(from ?? ""))).toEqual([]);
  for (const status of runStatusSchema.options) {
    const reached = new Set<string>([status]);
    for (const from of reached)
      for (const [start, to] of edges) if (start === from && to !== undefined) reached.add(to);
    expect([...reached].some(isFinal)).toBe(true);
  }
});

test("statements name phases instead of lists of statuses", () => {
  const stores = readdirSync(RUNS).filter((file) => file.endsWith(".store.ts"));
  const files = [...stores, ...readdirSync(join(RUNS, "sql")).map((file) => `sql/${file}`)];
  const status = runStatusSchema.options.join("|");
  const list = new RegExp(`(?<!step\\.)\\bstatus(?: \\|\\| '')? (?:not )?in \\([^)]*'(?:${status})'`);
  expect(files.length).toBeGreaterThan(20);
  expect(files.filter((file) => list.test(readFileSync(join(RUNS, file), "utf8")))).toEqual([]);
});

test("only a working run can be changed with its lease, and only a waiting one can be resumed", () => {
  const of_lease = transitions.filter((transition) => TRANSITIONS[transition].by === "lease");
  for (const transition of of_lease) expect(Object.keys(next(transition)).sort()).toEqual(inPhase("working"));
  expect(Object.keys(next("resume")).sort()).toEqual(inPhase("waiting"));
});

test("SQL of a transition names each of its statuses", () => {
  expect(sqlNext("hand_back")).toBe(
    "case run.status when 'running' then 'queued' when 'cancelling' then 'cancelled' end",
  );
});

test.each(transitions)("SQL of %s names each status before and after it", (transition) => {
  for (const [from, to] of Object.entries(next(transition))) {
    expect(sqlNext(transition)).toContain(` when '${from}' then '${to}' `);
    expect(sqlBefore(transition)).toContain(`'${from}'`);
  }
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
