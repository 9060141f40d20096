import { describe, expect, it } from "vitest";
import { ownExamples, specimens } from "../../../training/corpus.ts";

describe("the corpora", () => {
  it("name a group and have a text in every block, and no text twice", () => {
    const texts = specimens();
    expect(texts.length).toBeGreaterThan(1000);
    expect(
      texts.filter(({ text, group }) => text === "" || group === "" || /^# (?:technique|kind):/.test(text)),
    ).toEqual([]);
  });

  it("keep about half of each group out of the training completely", () => {
    const training_texts = new Set(ownExamples().map(({ text }) => text));
    for (const { text, is_held_out } of specimens()) expect(training_texts.has(text)).toBe(!is_held_out);
    const share = specimens().filter(({ is_held_out }) => is_held_out).length / specimens().length;
    expect(share).toBeGreaterThan(0.4);
    expect(share).toBeLessThan(0.6);
  });
});
