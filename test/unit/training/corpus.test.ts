import { describe, expect, it } from "vitest";
import { specimens } from "../../../training/corpus.ts";

describe("the corpora", () => {
  it("name a group and have a text in every block", () => {
    const texts = specimens();
    expect(texts.length).toBeGreaterThan(1000);
    expect(
      texts.filter(({ text, group }) => text === "" || group === "" || /^# (?:technique|kind):/.test(text)),
    ).toEqual([]);
  });
});
