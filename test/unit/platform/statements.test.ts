import { describe, expect, it } from "vitest";
import { assignments, insertInto, oneRow } from "../../../src/platform/db/statements.ts";

describe("an insert of a row", () => {
  it("names the column of every field, leaves out undefined ones, and writes null", () => {
    const row = { id: "a", note: undefined, ended_at: null, is_open: false };
    expect(insertInto("thing", row, "returning id")).toEqual({
      text: 'insert into thing ("id", "ended_at", "is_open") values ($1, $2, $3) returning id',
      values: ["a", null, false],
    });
  });
});

describe("the assignments of an update", () => {
  it("leave out undefined fields, write null, and number their parameters after the statement's own", () => {
    const values: unknown[] = ["user", "id"];
    expect(assignments(values, { status: "ended", note: undefined, ended_at: null })).toBe(
      '"status" = $3, "ended_at" = $4',
    );
    expect(values).toEqual(["user", "id", "ended", null]);
  });

  it("quote a column's name, so that no name can be read as SQL", () => {
    expect(assignments([], { 'a" = 1 --': 2 })).toBe('"a"" = 1 --" = $1');
  });
});

describe("a statement that always has a row", () => {
  it("fails without one, and its error holds no values", async () => {
    const sql = { query: async () => [] };
    const failed = oneRow(sql, { text: "select a from thing where id = $1", values: ["private"] });
    await expect(failed).rejects.toThrow("a statement has no row: select a from thing where id = $1");
  });
});
