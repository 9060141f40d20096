import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, inject, it } from "vitest";

const BENCH = join(import.meta.dirname, "../../bench/bench.ts");

// The benchmarks start both storages themselves, with a PostgreSQL server of their own.
it.runIf(inject("storage").kind === "postgres")(
  "a quick run of the benchmarks ends with figures for every contender",
  { timeout: 600_000 },
  async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [BENCH, "completions", "outbound", "--quick"]);
    const outcomes = stdout.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line)] : []));
    expect(outcomes.map(({ name }) => name)).toEqual(["completions", "outbound"]);
    const rows: { values: (number | null)[] }[] = outcomes.flatMap(({ tables }) => tables[0].rows);
    expect(rows).toHaveLength(4 + 3);
    expect(rows.every(({ values }) => (values[0] ?? 0) > 0)).toBe(true);
  },
);
