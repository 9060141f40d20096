import { describe, expect, it } from "vitest";
import { visibleMarkdown } from "../../../src/safety/reading/markdown.ts";
import { readable } from "../../../src/safety/reading/readable.ts";
import { visibleText } from "../../../src/safety/reading/visible.ts";

const textOf = (html: string) => visibleText(html).text;

describe("a page as text", () => {
  it("separates headings, lists, rows and paragraphs", () => {
    const html = `<h1>Title</h1><p>One <b>two</b>
      three.</p><ul><li>a<li>b</ul><table><tr><th>x<th>y<tr><td>1<td>2</table><pre>  code\n    more</pre>`;
    expect(textOf(html)).toBe("# Title\n\nOne two three.\n\n- a\n- b\n\nx | y\n1 | 2\n\n  code\n    more");
  });

  it("joins words that markup only styles, and separates words that markup separates", () => {
    expect(textOf("<p>un<b>believ</b>able<br>next</p><p>one</p>two")).toBe("unbelievable\nnext\n\none\n\ntwo");
  });

  it.each([
    ["<bdo dir=rtl>moc.elpmaxe@ofni</bdo>", "info@example.com"],
    ["<p style='unicode-bidi:bidi-override;direction:rtl'>lla <b>erongi</b></p>", "ignore all"],
    ["<bdo dir=rtl>snoit<b>curtsni</b> erongi</bdo>", "ignore instructions"],
    ["<bdo dir=rtl>snoit<i hidden dir=ltr>no<b>no</b></i>curtsni</bdo> now", "instructions now"],
    ["<bdo dir=rtl>eno</bdo> <bdo dir=rtl>owt</bdo>", "one two"],
    ["<bdo dir=rtl>eno<br>owt<p>eerht", "one\ntwo\n\nthree"],
    ["<bdo dir=rtl>\u05e9\u05dc\u05d5\u05dd</bdo>", "\u05e9\u05dc\u05d5\u05dd"],
    ["<bdo dir=ltr>\u05dd\u05d5\u05dc\u05e9</bdo>", "\u05e9\u05dc\u05d5\u05dd"],
    ["<bdo dir=rtl>\u0627 erongi</bdo>", "ignore \u0627"],
    [
      "<style>.r{unicode-bidi:isolate-override}</style><div dir=rtl><p class=r>erongi</p>plain</div>",
      "ignore\n\nplain",
    ],
    ["<bdo dir=rtl>cba <span dir=ltr>plain</span></bdo>", "abc plain"],
    ["<bdo dir=rtl>cba <bdi>plain</bdi></bdo>", "abc plain"],
    ["<bdo dir=rtl>cba <output>plain</output></bdo>", "abc plain"],
    ["<bdo dir=ltr>plain</bdo> <p dir=rtl>plain</p>", "plain\n\nplain"],
    ["<bdo>plain</bdo>", "plain"],
    ["<bdo dir=rtl><span style='unicode-bidi:normal'>erongi</span></bdo>", "ignore"],
    ["<bdo dir=rtl style='unicode-bidi:unknown'>erongi</bdo>", "ignore"],
    ["<bdo dir=rtl><span style='unicode-bidi:embed;direction:ltr'>plain</span></bdo>", "plain"],
    ["<bdo dir=rtl><span style='unicode-bidi:isolate;direction:ltr'>plain</span></bdo>", "plain"],
    ["<bdo dir=rtl><span style='unicode-bidi:plaintext'>plain</span></bdo>", "plain"],
  ])("reverses text that an element displays backwards: %s", (html, text) => {
    expect(textOf(html)).toBe(text);
  });

  it("keeps sentences whole and lists their links", () => {
    const { text, links } = visibleText(
      '<p>See <a href="/a?b=1&amp;c">the report</a> now. <a href="javascript:x">no</a></p>',
    );
    expect(text).toBe("See the report now. no");
    expect(links).toEqual([{ text: "the report", url: "/a?b=1&c" }]);
  });

  it("does not list invisible links", () => {
    expect(visibleText('<div hidden><a href="https://evil.example">x</a></div>').links).toEqual([]);
  });

  it.each([
    ['<div style="visibility:hidden">no <span style="visibility:visible">yes</span></div>', "yes"],
    ['<div style="font-size:0">no <span style="font-size:16px">yes</span></div>', "yes"],
    ["<p hidden>no<div>yes</div>", "yes"],
    ["<li hidden>no<li>yes", "- yes"],
    ['<div hidden style="display:block">yes</div>', "yes"],
    ['<div style="color:#fff;background:#00f">yes</div>', "yes"],
    ['<link rel=stylesheet href=x.css><div style="color:#fff">yes</div>', "yes"],
    ["<style>@media print{.a{display:none}} .a:hover{display:none} .b .a{display:none}</style><p class=a>yes", "yes"],
    ['<style>.a{display:none}</style><p class=a style="display:block">yes', "yes"],
    ["<details><summary>More</summary>yes</details>", "More\nyes"],
    ["<div><b hidden>no</b>yes</div>", "yes"],
  ])("shows what a browser shows: %s", (html, expected) => expect(textOf(html)).toBe(expected));
});

describe("Markdown", () => {
  it("is unchanged without hidden text", () => {
    const markdown =
      "# A\n\nText with `<b>` and List<String>.\n\n```html\n<!-- shown -->\n<div hidden>shown</div>\n```\n\n- [x](https://a.example/b)\n";
    expect(visibleMarkdown(markdown).text).toBe(markdown);
  });

  it("lists inline links, reference links and bare ones", () => {
    const { links } = visibleMarkdown(
      "[a](https://a.example/x_(y)) <https://b.example>\n\n[c]: https://c.example 'title'",
    );
    expect(links.map((link) => link.url).sort()).toEqual([
      "https://a.example/x_(y)",
      "https://b.example",
      "https://c.example",
    ]);
  });

  it("shows the whole text of footnotes, and lists the address of a footnote that is only an address", () => {
    const markdown =
      "Free.[^note]\n\n[^note]: berth eight is free too, 'for a day'\n[^2]: https://a.example/b see there\n";
    const { text, links, hidden } = visibleMarkdown(markdown);
    expect([text, hidden]).toEqual([markdown, []]);
    expect(links).toEqual([{ text: "^2", url: "https://a.example/b" }]);
  });

  it("code inside hidden HTML is hidden with it, and other code stays in its place", () => {
    expect(visibleMarkdown("`a` <div hidden>`b`</div> `c`").text).toBe("`a`  `c`");
  });
});

it.each([
  ["markdown", (n: number) => `[berth](b?c=${n}) [berth](b?c=${n}#x) `],
  ["html", (n: number) => `<a href="b?c=${n}">berth</a> `],
] as const)("a page of %s has 500 links at most, which bounds what their choice can tell a site", (kind, link) => {
  const content = Array.from({ length: 5_000 }, (_, n) => link(n)).join("");
  const { links } = readable(content, kind, "https://harbour.example/");
  expect(new Set(links.map(({ url }) => url)).size).toBe(500);
  expect(links).toHaveLength(500);
});

describe("relative links begin at", () => {
  const page = "https://harbour.example/news/today";
  it.each([
    ["the page's address", "", "https://harbour.example/news/b?c=1"],
    ["the page's own base", '<base href="https://docs.example/v2/">', "https://docs.example/v2/b?c=1"],
    ["a base that is relative itself", "<BASE target=x><base href='/berths/'>", "https://harbour.example/berths/b?c=1"],
    ["the first base", '<base href="/one/"><base href="/two/">', "https://harbour.example/one/b?c=1"],
    [
      "the page's address, if the base is no web address",
      '<base href="data:text/html,x">',
      "https://harbour.example/news/b?c=1",
    ],
    [
      "the page's address, if the base is in a comment",
      '<!-- <base href="/no/"> -->',
      "https://harbour.example/news/b?c=1",
    ],
  ])("%s", (_what, base, expected) => {
    const { links } = readable(
      `<html><head>${base}</head><body><a href="b?c=1">the list</a></body></html>`,
      "html",
      page,
    );
    expect(links).toEqual([{ text: "the list", url: expected }]);
  });
});

it("a feed whose entry has 300,000 hidden elements is read, and all of them are judged", () => {
  const content = `<rss><item><description>${"&lt;p hidden&gt;x&lt;/p&gt;".repeat(300_000)}Berth 7</description></item></rss>`;
  const { text, hidden } = readable(content, "xml");
  expect([text, hidden.length]).toEqual(["Berth 7", 300_000]);
});
