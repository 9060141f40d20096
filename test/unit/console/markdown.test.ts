import { describe, expect, it } from "vitest";
import { type MarkdownNode, parseMarkdown } from "../../../console/src/markdown.ts";

/** A tree in one line: `paragraph(a strong(b))`. */
function shown(node: MarkdownNode | null): string {
  if (node === null) return "plain";
  const { kind, text, url, start, checked, children } = node;
  if (kind === "text") return text ?? "";
  if (kind === "link") return `link<${url}>`;
  const marks = [start, checked].filter((mark) => mark !== undefined).join(" ");
  const inside = children === undefined ? (text ?? "") : children.map(shown).join(" | ");
  return kind === "root" ? inside : `${kind}${marks === "" ? "" : ` ${marks}`}(${inside})`;
}
const parsed = (text: string) => shown(parseMarkdown(text));

describe("Markdown", () => {
  it.each([
    ["one\ntwo\n\nthree", "paragraph(one\ntwo) | paragraph(three)"],
    ["## What matters ##\nText", "heading(What matters) | paragraph(Text)"],
    ["```js\na = 1;\n\n# b\n```\nAfter", "codeBlock(a = 1;\n\n# b) | paragraph(After)"],
    ["```\nnever closed", "codeBlock(never closed)"],
    ["> said\n> twice", "quote(paragraph(said\ntwice))"],
    ["3. three\n   - within", "orderedList 3(item(paragraph(three) | list(item(paragraph(within)))))"],
    ["- [x] done\n- [ ] open", "list(item true(paragraph(done)) | item false(paragraph(open)))"],
    ["|a|b|\n|-|:-:|\n|1|2|", "table(row(cell(a) | cell(b)) | row(cell(1) | cell(2)))"],
    [
      "a **b** and *c*, ~~d~~ `e*f*`",
      "paragraph(a  | strong(b) |  and  | emphasis(c) | ,  | deleted(d) |   | code(e*f*))",
    ],
    ["2 * 3 * 4, snake_case_name", "paragraph(2 * 3 * 4, snake_case_name)"],
    ["a\\\nb", "paragraph(a | break() | b)"],
  ])("%j is parsed into its parts", (text, tree) => {
    expect(parsed(text)).toBe(tree);
  });

  it.each([
    ["[wiki](https://example.com/a_(b))", "paragraph(wiki |   | link<https://example.com/a_(b)>)"],
    ["[a](<https://example.com/b c>)", "paragraph(a |   | https://example.com/b c)"],
    ["see https://example.com/a_b?c=1.", "paragraph(see  | link<https://example.com/a_b?c=1> | .)"],
    ["[ref][r]\n\n[r]: https://example.com/r", "paragraph(ref |   | link<https://example.com/r>)"],
    ["<ada@example.com>", "paragraph(link<mailto:ada@example.com>)"],
    ["[https://example.com](https://evil.example)", "paragraph(https://example.com |   | link<https://evil.example>)"],
  ])("%j opens exactly the address that it shows", (text, tree) => {
    expect(parsed(text)).toBe(tree);
  });

  it("an attack by an image or a script address: nothing is loaded, and only http, https and mailto are links", () => {
    expect(parsed("![x](https://evil.example/p.png)")).toBe("paragraph(x |   | link<https://evil.example/p.png>)");
    for (const target of [
      "javascript:alert`1`",
      "JAVASCRIPT:alert(1)",
      "data:text/html,x",
      "//evil.example",
      "/keys",
      "file:///etc",
    ])
      expect(parsed(`[go](${target})`)).not.toContain("link<");
    expect(parsed("[go][r]\n\n[r]: javascript:alert(1)")).not.toContain("link<");
  });

  it("a table knows the alignment of its columns", () => {
    const [table] = parseMarkdown("|a|b|c|d|\n|:-|:-:|-:|-|\n|1|2|3|4|")?.children ?? [];
    expect(table?.align).toEqual(["left", "center", "right", null]);
  });

  it("an attack by HTML: it is shown as text", () => {
    expect(parsed("<img src=x onerror=alert(1)>")).toBe("<img src=x onerror=alert(1)>");
    expect(parsed("a <b>c</b>")).toBe("paragraph(a  | <b> | c | </b>)");
  });

  it("an attack by invisible characters: an address that contains one is no link", () => {
    for (const address of ["https://evil.example/\u202egro.elpmaxe//:sptth", "https://example.com\u200b.evil.example"])
      expect(parsed(`[x](${address})`)).not.toContain("link<");
  });

  it("an attack by nesting or by length: the text stays plain or is cut at a limit of depth", () => {
    expect(parsed("a".repeat(100_001))).toBe("plain");
    expect(parsed(`${"> ".repeat(60)}a`)).toContain("…");
  });
});
