import { expect, it } from "vitest";
import { createMarkdownRenderer } from "../../../src/account/notices/markdown.ts";

const markdown = createMarkdownRenderer();

it.each<[string, string, string]>([
  ["a heading, emphasis and code", "# A\n\n*b* `c`", "<h1>A</h1>\n<p><em>b</em> <code>c</code></p>"],
  ["a table", "| a |\n| --- |\n| 1 |", "<table>\n<thead>\n<tr>\n<th>a</th>"],
  ["a bare address", "https://a.example/b", '<p><a href="https://a.example/b">https://a.example/b</a></p>'],
  ["HTML as its text", "<b onclick=x>a</b>", "<p>&lt;b onclick=x&gt;a&lt;/b&gt;</p>"],
  ["a block of HTML as its text", "<iframe src=x></iframe>", "&lt;iframe src=x&gt;&lt;/iframe&gt;"],
  ["a picture as a link", "![map](https://a.example/p.png)", '<p><a href="https://a.example/p.png">map</a></p>'],
  [
    "a picture by reference as a link",
    "![m][1]\n\n[1]: https://a.example/",
    '<p><a href="https://a.example/">m</a></p>',
  ],
  ["a script's address as none", "[a](javascript:alert)", '<p><a href="">a</a></p>'],
  ["a picture's data as no address", "![a](data:image/png;base64,AA==)", '<p><a href="">a</a></p>'],
])("shows %s", async (_what, text, html) => {
  expect(await markdown.toHtml(text, "ada")).toContain(html);
});

it("leaves a text plain whose rendering takes too long", async () => {
  const impatient = createMarkdownRenderer({ render_ms: 500 });
  const slow = "*a_".repeat(16_000);
  expect(await impatient.toHtml(`<i>${slow}`, "ada")).toBe(`<pre style="white-space: pre-wrap">&lt;i&gt;${slow}</pre>`);
});
