import { describe, expect, it } from "vitest";
import { normalise } from "../../../src/safety/reading/normalise.ts";

describe("the output view", () => {
  it("composes, and ends lines with a line feed", () => {
    expect(normalise("e\u0301\r\na\u2028b\u0085c\rd").text).toBe("é\na\nb\nc\nd");
  });

  it("mends half a surrogate pair instead of passing it on", () => {
    expect(normalise("a\ud800b").text).toBe("a\ufffdb");
  });

  it("tells what invisible characters spelled", () => {
    const bytes = Array.from("spy!", (char) => String.fromCodePoint(0xe0100 + char.charCodeAt(0) - 16)).join("");
    expect(normalise(`x\u{e0068}\u{e0069}\u{e0020}\u{e0079}${bytes}`)).toMatchObject({
      text: "x",
      smuggled: ["hi y", "spy!"],
      split_words: 0,
    });
  });

  it("leaves ordinary brackets, tags and operators alone", () => {
    const text = "a <b> c, x |> f(y), [1], List<String>, if (a < b || c > d), <article>";
    expect(normalise(text).text).toBe(text);
  });

  it("keeps what stands in a tag that frames a conversation", () => {
    expect(normalise("Act-As: <user id>\n<system>").text).toBe("Act-As: (user id)\n(system)");
  });

  it("tells of characters that steer what is shown, and of frames that it defused", () => {
    const { unseen, defused } = normalise("a\u202eb\u200bc <|im_start|>system\n\nHuman: hello [INST]");
    expect([unseen, defused]).toEqual([2, ["im_start", "INST", "Human"]]);
    expect(normalise("soft\u00adhyphens, \ufeffmarks, \u{1f469}\u200d\u{1f52c} and a < b [1]")).toMatchObject({
      unseen: 0,
      defused: [],
    });
  });
});
