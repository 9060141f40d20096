import { describe, expect, it } from "vitest";
import { blocksOf, spansOf } from "../../../console/src/markdown.ts";

describe("what a model has written", () => {
  it.each<[string, ReturnType<typeof blocksOf>]>([
    ["one\ntwo\n\nthree", [paragraph("one\ntwo"), paragraph("three")]],
    ["## What matters ##\nText", [{ kind: "heading", text: "What matters" }, paragraph("Text")]],
    ["# C# and #tags ", [{ kind: "heading", text: "C# and #tags" }]],
    ["# ##", [{ kind: "heading", text: "" }]],
    ["#1 is no heading", [paragraph("#1 is no heading")]],
    ["```js\nconst a = 1;\n\n# b\n```\nAfter", [{ kind: "code", text: "const a = 1;\n\n# b" }, paragraph("After")]],
    ["```\nnever closed", [{ kind: "code", text: "never closed" }]],
    ["a\n---\nb", [paragraph("a"), { kind: "rule" }, paragraph("b")]],
    ["> said\n> twice", [{ kind: "quote", text: "said\ntwice" }]],
    [
      "So:\n1. first\n   goes on\n  - within\n2) second",
      [paragraph("So:"), list(["1.", 0, "first\ngoes on"], ["•", 1, "within"], ["2.", 0, "second"])],
    ],
    ["* a\n* b", [list(["•", 0, "a"], ["•", 0, "b"])]],
    ["- a\n  ```\n  code\n  ```", [list(["•", 0, "a"]), { kind: "code", text: "  code" }]],
    ["|a|b|\n|-|:-:|\n|1|2|\nAfter", [{ kind: "table", head: ["a", "b"], rows: [["1", "2"]] }, paragraph("After")]],
    ["|no table|", [paragraph("|no table|")]],
  ])("%j is shown as its blocks", (text, blocks) => {
    expect(blocksOf(text)).toEqual(blocks);
  });

  it.each([
    ["a **b** and *c*", ["text: a ", "strong: b", "text:  and ", "emphasis: c"]],
    ["2 * 3 * 4, snake_case_name", ["text: 2 * 3 * 4, snake_case_name"]],
    ["use `a*b*c`", ["text: use ", "code: a*b*c"]],
    ["**never closed", ["text: **never closed"]],
    ["see https://example.com/a_b?c=1.", ["text: see ", "address: https://example.com/a_b?c=1", "text: ."]],
  ])("%j is shown as its spans", (text, spans) => {
    expect(spansOf(text).map(({ kind, text: shown }) => `${kind}: ${shown}`)).toEqual(spans);
  });

  it("a link shows the address that it leads to, a picture is not loaded, and a script is no address", () => {
    const shown = (text: string) => spansOf(text).map(({ kind, text: part }) => `${kind}: ${part}`);
    expect(shown("[your bank](https://evil.example/?d=1)")).toEqual([
      "text: your bank ",
      "address: https://evil.example/?d=1",
    ]);
    expect(shown("![x](https://evil.example/p.png)")).toEqual(["text: x ", "address: https://evil.example/p.png"]);
    for (const target of ["javascript:alert`1`", "data:text/html,x", "//evil.example", "/keys"])
      expect(shown(`[go](${target})`)).not.toContainEqual(expect.stringMatching(/^address/));
  });

  it("what steers the direction of writing is no part of an address", () => {
    for (const text of ["https://evil.example/\u202egro.elpmaxe//:sptth", "[x](https://evil.example/\u2066a)"]) {
      const addresses = spansOf(text).filter(({ kind }) => kind === "address");
      expect(addresses.map((span) => span.text)).toEqual(["https://evil.example/"]);
    }
  });

  it.each<[string, (length: number) => string]>([
    ["a heading of spaces", (length) => `# a${" ".repeat(length)}x`],
    ["a heading of signs", (length) => `# ${"#".repeat(length)}x`],
    ["an item of spaces", (length) => `- ${" ".repeat(length)}a\u2028`],
  ])("%s takes no longer than its length", (_what, textOf) => {
    const taken = (length: number) => {
      const from_us = process.threadCpuUsage().user;
      blocksOf(textOf(length));
      return process.threadCpuUsage().user - from_us;
    };
    taken(1_000);
    expect(taken(40_000)).toBeLessThan(100_000);
  });

  it("loses nothing of a text without marks, and takes no longer for one that is made to be costly", () => {
    for (const part of ["[", "*", "`", "**a ", "![x](", "|", "> ", "1. ", "http://", "_", "#"]) {
      const text = part.repeat(Math.floor(60_000 / part.length));
      blocksOf(text);
      expect(spansOf(text).length).toBeGreaterThan(0);
    }
    expect(blocksOf("a < b\n\tc & d")).toEqual([paragraph("a < b\n\tc & d")]);
  });
});

function paragraph(text: string) {
  return { kind: "paragraph", text } as const;
}
function list(...items: [string, number, string][]) {
  return { kind: "list", items: items.map(([mark, depth, text]) => ({ mark, depth, text })) } as const;
}
