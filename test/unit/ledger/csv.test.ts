import fc from "fast-check";
import { expect, it } from "vitest";
import { csvLine, defused, parseCsv, undefused } from "../../../src/account/ledger/csv.ts";

async function parsed(pieces: string[]): Promise<string[][]> {
  const lines: string[][] = [];
  for await (const line of parseCsv(
    (async function* () {
      yield* pieces;
    })(),
  ))
    lines.push(line);
  return lines;
}

it("reads every written text back, in pieces of any size", async () => {
  const text = fc.string({ unit: fc.constantFrom("a", ",", '"', "\n", "\r\n", "=", "'", "ü", "\u{1f389}") });
  const table = fc.array(fc.array(text, { minLength: 2, maxLength: 4 }), { maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(table, fc.integer({ min: 1, max: 9 }), async (lines, size) => {
      const file = lines.map(csvLine).join("");
      const pieces = Array.from({ length: Math.ceil(file.length / size) }, (_, n) =>
        file.slice(n * size, (n + 1) * size),
      );
      expect(await parsed(pieces)).toEqual(lines);
    }),
  );
});

it("escapes text that a spreadsheet would execute, and reads it back exactly", () => {
  for (const text of ["=1+1", "+1", "-1", "@sum", "\t=1", "\r=1", "\n=1", "＝1", "'quoted", "''", "'"]) {
    expect(defused(text)).toBe(`'${text}`);
    expect(undefused(defused(text))).toBe(text);
  }
  for (const text of ["", "plain", "1", "a=b"]) expect(defused(text)).toBe(text);
});

it("accepts line ends of either kind, a last line without one, and a byte order mark", async () => {
  expect(await parsed(["\uFEFFa,b\nc", ',"d\r\ne"'])).toEqual([
    ["a", "b"],
    ["c", "d\r\ne"],
  ]);
});
