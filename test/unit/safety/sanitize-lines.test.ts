import { expect, it } from "vitest";
import { startSanitizeLines } from "../../support/process.ts";

// `npm run -s sanitize`: contract 1.

it("each line is answered at once and in order, also an invalid one", async () => {
  const lines = startSanitizeLines();
  const ask = (line: string) => {
    lines.write(`${line}\n`);
    return lines.answer();
  };
  const content = "a\u2028b";
  const separated = await ask(`\ufeff{"id":"1","kind":"text","content":"${content}"}\r`);
  expect(separated).toEqual({
    id: "1",
    text: expect.stringContaining("\na\nb\n"),
    verdict: { injected: false, suspicious: false, score: expect.any(Number) },
    removed: [],
    marker: expect.stringMatching(/^[0-9a-f]{24}$/),
  });
  expect(await ask("no JSON")).toEqual({ error: "this line is not JSON" });
  const form = "each line is {id, kind: html|markdown|text, content}";
  for (const line of ["null", "[1]", "{}", '{"content":"x"}', '{"kind":"json","content":"x"}'])
    expect(await ask(line)).toEqual({ error: form });
  expect(await ask('{"id":2,"kind":"text","content":3}')).toEqual({ id: 2, error: form });
  expect(await ask(`\n\n{"id":3,"kind":"html","content":"<p hidden>x</p>"}`)).toMatchObject({ id: 3 });
  lines.write(`{"id":4,"kind":"text","content":"${"word ".repeat(400_000)}"}\n{"id":5,"kind":"markdown","content":""}`);
  lines.end();
  expect([(await lines.answer()).id, (await lines.answer()).id]).toEqual([4, 5]);
  expect(await lines.code).toBe(0);
});
