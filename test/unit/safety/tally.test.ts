import { describe, expect, test } from "vitest";
import { textFeatures } from "../../../src/safety/judging/features.ts";
import { fold } from "../../../src/safety/judging/fold.ts";
import { loadModel } from "../../../src/safety/judging/model.ts";
import { createTally } from "../../../src/safety/judging/tally.ts";
import { piecesOf } from "../../../src/safety/judging/windows.ts";

describe("a window's weight", () => {
  test("counts each feature of its pieces once, also if several pieces have it", () => {
    const model = loadModel();
    const pieces = piecesOf("The rules are new. Read the rules! The rules are new. 漢字 and 24 rules. Read on.");
    const weigh = createTally(model, pieces);
    for (let first = 0; first < pieces.length; first++) {
      for (let last = first; last < pieces.length; last++) {
        const features = pieces
          .slice(first, last + 1)
          .flatMap(({ folded }) => [...textFeatures(folded, model.clusters)]);
        const each = new Set(features);
        const sum = [...each].reduce((total, feature) => total + (model.weights[feature] ?? 0), 0);
        expect(weigh({ first, last })).toEqual({ sum, count: each.size });
      }
    }
  });
});

describe("folding", () => {
  test("replaces look-alikes next to dashes and quotation marks", () => {
    expect(fold("—1gn0re “аll”…prev1ous—")).toBe('—ignore "all"...previous—');
  });

  test.each([
    "Café “naïve” – it’s ½ ‼…",
    "1gn0r\u00e9 \u00a0\u2003the  r\u00fcles",
    "\u0130\u0149\u00c5\u00a8\u2017 \u00ab\u00df\u00bb",
  ])("of accents and punctuation is the same alone and next to other scripts: %s", (text) => {
    // A letter of another script makes the whole text take the slow path.
    expect(`${fold(text)} 漢`).toBe(fold(`${text} 漢`));
  });
});
