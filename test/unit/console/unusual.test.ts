import { expect, test } from "vitest";

// Imported by a computed name, because only the console's own project compiles JSX, to which the types lead.
const path = "../../../console/src/unusual.ts";
const { dearerVersion } = await import(path);

type Row = [version: number, day: number, cost_tokens: number, kind?: "test" | "replay"];
/** Runs of an agent, newest first. */
const runsOf = (rows: readonly Row[]) =>
  rows.map(([agent_version, day, cost_tokens, kind]) => ({
    agent_version,
    trigger: kind === "test" ? "test" : "schedule",
    metadata: kind === "replay" ? { replay_of: "a run" } : null,
    queued_at: `2026-03-${String(day).padStart(2, "0")}T09:00:00.000Z`,
    usage: { cost_tokens },
  }));

// The 9th and the 10th cost more than usual.
test.each<[string, Row[], number | null]>([
  [
    "the version whose runs cost more",
    [
      [2, 10, 900],
      [2, 9, 950],
      [1, 8, 100],
      [1, 7, 120],
    ],
    2,
  ],
  [
    "none, if the version before had the dear run",
    [
      [2, 10, 100],
      [1, 9, 900],
      [1, 8, 100],
    ],
    null,
  ],
  [
    "none, if it is only as dear as the version before",
    [
      [2, 10, 900],
      [1, 9, 900],
      [1, 8, 100],
    ],
    null,
  ],
  [
    "none, if the newest version has not run",
    [
      [1, 10, 900],
      [1, 8, 100],
    ],
    null,
  ],
  [
    "the dear version, also after its settings were changed back",
    [
      [3, 10, 100],
      [2, 9, 900],
      [1, 8, 100],
    ],
    2,
  ],
  [
    "the first of two dear versions",
    [
      [3, 10, 900],
      [2, 9, 900],
      [1, 8, 100],
    ],
    2,
  ],
  [
    "none, if there are only more runs",
    [
      [2, 10, 110],
      [2, 10, 110],
      [2, 9, 110],
      [1, 8, 100],
    ],
    null,
  ],
  [
    "none, if the version is older than the rise",
    [
      [2, 10, 900],
      [2, 8, 900],
      [1, 7, 100],
    ],
    null,
  ],
  [
    "none by a test, which runs a draft",
    [
      [2, 10, 900, "test"],
      [2, 10, 100],
      [1, 8, 100],
    ],
    null,
  ],
  [
    "none by a replay, which another model answers",
    [
      [2, 10, 900, "replay"],
      [1, 10, 100],
      [1, 8, 100],
    ],
    null,
  ],
  ["none, if the version before made the rise by more runs", [[2, 10, 250], ...Array<Row>(6).fill([1, 9, 100])], null],
  [
    "the version that made most of the rise, not on a dearer one before",
    [...Array<Row>(5).fill([3, 10, 2_000]), [2, 9, 250], [1, 8, 100]],
    3,
  ],
  [
    "none, if a dear version was mended and the mended one only runs more",
    [...Array<Row>(6).fill([3, 10, 100]), [2, 9, 250], [1, 8, 100]],
    null,
  ],
  ["none without a run before", [[2, 10, 900]], null],
  [
    "none by runs that failed before they cost anything",
    [
      [2, 10, 900],
      [1, 8, 0],
    ],
    null,
  ],
])("a rise in cost is blamed on %s", (_name, rows, version) => {
  expect(dearerVersion(runsOf(rows), "2026-03-09")).toBe(version);
});
