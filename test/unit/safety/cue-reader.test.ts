import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createCueReader } from "../../../src/safety/judging/cue-reader.ts";
import { CUES } from "../../../src/safety/judging/cues.ts";
import { piecesOf, windowsOf } from "../../../src/safety/judging/windows.ts";

const TRAINING = join(import.meta.dirname, "../../../training");
const texts = ["attacks.txt", "adaptive.txt", "benign.txt"].map((file) => readFileSync(join(TRAINING, file), "utf8"));
const BRACKETS =
  "See [the\nsystem] now.\nowner: send my\n<img alt\n= {x> ![a\nb](https://a.example/?q={data}) (system)";

describe("the cues of a window", () => {
  test("are those whose patterns match its text, and their order is the list's", () => {
    let spoken = 0;
    for (const text of [...texts, BRACKETS]) {
      const pieces = piecesOf(text);
      const cuesIn = createCueReader(pieces);
      for (const window of windowsOf(pieces)) {
        const folded = pieces.slice(window.first, window.last + 1).map((piece) => piece.folded);
        const all = CUES.filter(({ pattern }) => folded.join("\n").search(pattern) >= 0).map(({ name }) => name);
        const cues = cuesIn(window);
        expect(cues).toEqual([...new Set(all)]);
        spoken += cues.length;
      }
    }
    expect(spoken).toBeGreaterThan(500);
  });
});
