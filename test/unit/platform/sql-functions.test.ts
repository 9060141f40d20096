import { describe, expect, it } from "vitest";
import {
  type AppliedDefinition,
  changedDefinitions,
  compareReleases,
  readDefinitions,
  type SqlDefinition,
} from "../../../src/platform/db/sql-functions.ts";

const definition = (name: string, sha256: string, kind: SqlDefinition["kind"] = "function"): SqlDefinition => ({
  name,
  kind,
  text: "",
  sha256,
});
const applied = (name: string, sha256: string, release: string): AppliedDefinition => ({ name, sha256, release });
const namesOf = (definitions: readonly SqlDefinition[]) => definitions.map(({ name }) => name);

describe("the SQL functions that a release applies", () => {
  const known = [definition("charge", "c2"), definition("verdict", "v1", "type")];

  it("are all functions on a new database, types before the functions that use them", () => {
    expect(namesOf(changedDefinitions(known, [], "1.0.0"))).toEqual(["verdict", "charge"]);
  });

  it("include a type after the types that it uses", () => {
    const couple = { ...definition("couple", "p1", "type"), text: "create type couple as (\n  one single\n);" };
    const both = changedDefinitions([couple, definition("single", "s1", "type")], [], "1.0.0");
    expect(namesOf(both)).toEqual(["single", "couple"]);
  });

  it.each([
    ["an older release", "0.9.0"],
    ["the same release", "1.0.0"],
  ])("include a function that changed since %s applied it", (_, release) => {
    const rows = [applied("charge", "c1", release), applied("verdict", "v1", release)];
    expect(namesOf(changedDefinitions(known, rows, "1.0.0"))).toEqual(["charge"]);
  });

  it("are none after a newer release, so that an older node restores no old function", () => {
    const rows = [applied("charge", "c3", "1.0.1"), applied("verdict", "v1", "1.0.1")];
    expect(changedDefinitions(known, rows, "1.0.0")).toEqual([]);
  });

  it("include no changed type, because tables and running calls may use it", () => {
    expect(() => changedDefinitions(known, [applied("verdict", "v0", "0.9.0")], "1.0.0")).toThrow(/verdict.*new name/);
  });
});

it.each([
  ["0.1.0", "0.1.0", 0],
  ["0.10.0", "0.9.9", 1],
  ["1.0", "1.0.0", 0],
  ["1.0.0-rc.1", "1.0.0", 0],
  ["1.0.0", "1.0.1", -1],
])("the releases %s and %s are ordered by their numbers", (one, other, sign) => {
  expect(Math.sign(compareReleases(one, other))).toBe(sign);
});

it("a function is in the file of its name, so that a search for the name finds it", () => {
  const wrong = readDefinitions().filter(
    ({ name, kind, text }) => !new RegExp(`^create (or replace )?${kind} ${name}\\b`, "m").test(text),
  );
  expect(wrong).toEqual([]);
});
