import { expect, it } from "vitest";
import { keepWithinLimit } from "../../../src/agents/runs/tool-step.ts";
import type { RunStep } from "../../../src/agents/runs/transcript.ts";

const MB = 1_048_576;
const picture = { media_type: "image/png" as const, data: "x".repeat(MB) };
const answered = (pictures: (typeof picture)[], links: string[] = []) => ({ result: "seen", links, pictures });

it("a result keeps its links and pictures for later steps", () => {
  expect(keepWithinLimit(answered([picture], ["https://a.test/"]), [])).toEqual({
    result: "seen",
    internal: { links: ["https://a.test/"], pictures: [picture] },
  });
  expect(keepWithinLimit(answered([]), []).internal).toEqual({ links: [] });
});

it("a run keeps 16 MB of pictures and says what it omits (attack: 200 results of 2 MB in memory)", () => {
  const steps: Pick<RunStep, "internal">[] = [];
  for (let n = 0; n < 20; n += 1) steps.push(keepWithinLimit(answered([picture, picture]), steps));
  const kept = steps.flatMap(({ internal }) => (internal as { pictures?: unknown[] }).pictures ?? []);
  expect(kept).toHaveLength(16);
  expect(keepWithinLimit(answered([picture]), steps).result).toBe(
    "seen\n[images left out: 1, because this run has too many]",
  );
});

it("a run keeps 16 MB of links (attack: pages of 5 MB of links)", () => {
  const links = Array.from({ length: 500 }, (_, n) => `https://a.test/${n}/${"x".repeat(10_000)}`);
  const steps: Pick<RunStep, "internal">[] = [];
  for (let n = 0; n < 10; n += 1) steps.push(keepWithinLimit(answered([], links), steps));
  const kept = steps.flatMap(({ internal }) => (internal as { links: string[] }).links);
  expect(kept.reduce((sum, { length }) => sum + length, 0)).toBeLessThan(16 * MB);
  expect(kept.length).toBeGreaterThan(1_600);
});
