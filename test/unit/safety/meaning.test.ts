import { describe, expect, it } from "vitest";
import { visibleMarkdown } from "../../../src/safety/reading/markdown.ts";
import { readable } from "../../../src/safety/reading/readable.ts";

// What people tell apart on a page stays apart in the text, and what they read as one stays one.

const textOf = (html: string) => readable(html, "html").text.replace(/\u00a0/g, " ");

describe("raised and lowered text stays apart from its base", () => {
  it.each([
    ["10<sup>6</sup>", "10^6"],
    ["10<sup>-6</sup> m", "10^-6 m"],
    ["10<sup>−6</sup>", "10^−6"],
    ["$19<sup>99</sup>", "$19^99"],
    ["<span>$19</span><sup>99</sup>", "$19^99"],
    ["12,500<sup>1</sup>", "12,500^1"],
    ["12,500<sup>[1]</sup>", "12,500[1]"],
    ["12,500 <sup>1</sup>", "12,500 1"],
    ["2<sup>1</sup>/<sub>2</sub>", "2^1/2"],
    ["2 <sup>1</sup>/<sub>2</sub> cups", "2 1/2 cups"],
    ["H<sub>2</sub>O", "H_2O"],
    ["x<sub>1</sub><sup>2</sup>", "x_1^2"],
    ["x<sub>1</sub>2", "x_1 2"],
    ["(a+b)<sup>2</sup>", "(a+b)^2"],
    ["E = mc<sup>2</sup>.", "E = mc^2."],
    ["the 1<sup>st</sup> of May", "the 1st of May"],
    ["Purser<sup>®</sup>", "Purser®"],
    ["10<sup><i>n</i></sup>", "10^n"],
    ["10<sup hidden>6</sup>", "10"],
    ["10<sup></sup>6", "106"],
    ["see<sup><a href=#n>2</a></sup>.", "see^2."],
  ])("%s", (html, text) => {
    expect(textOf(`<p>${html}</p>`)).toBe(text);
    expect(visibleMarkdown(html).text).toBe(text);
  });
});

describe("a formula", () => {
  const math = (inner: string) => textOf(`<p>Then <math>${inner}</math> holds.</p>`);
  it.each([
    ["<msup><mn>10</mn><mn>6</mn></msup>", "10^6"],
    ["<msub><mi>x</mi><mn>1</mn></msub>", "x_1"],
    ["<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>", "x_1^2"],
    ["<mfrac><mn>1</mn><mn>2</mn></mfrac>", "1/2"],
    ["<mn>2</mn><mfrac><mn>1</mn><mn>2</mn></mfrac>", "2 1/2"],
    ["<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac>", "(a + b)/2"],
    ["<mfrac>\n <mrow>\n <mi>a</mi> </mrow>\n <mn>2</mn>\n</mfrac>", "a/2"],
    ["<msup><mi>e</mi><mrow><mo>-</mo><mi>x</mi></mrow></msup>", "e^(- x)"],
    ["<msqrt><mi>x</mi></msqrt>", "√(x)"],
    ["<mroot><mi>x</mi><mn>3</mn></mroot>", "x root 3"],
    ["<mi>a</mi><mi>b</mi>", "a b"],
    ["<mi>sin</mi><mo>\u2061</mo><mi>x</mi>", "sin x"],
    ["<munderover><mo>∑</mo><mn>1</mn><mi>n</mi></munderover><mi>k</mi>", "∑_1^n k"],
    ["<semantics><mi>x</mi><annotation>y</annotation></semantics>", "x"],
  ])("%s", (inner, text) => expect(math(inner).replace(/ {2,}/g, " ")).toBe(`Then ${text} holds.`));
});

describe("white space of any kind separates words", () => {
  it.each([
    ["<b>a</b>&nbsp;<b>b</b>", "a b"],
    ["a&nbsp;<b>b</b>", "a b"],
    ["<b>a&nbsp;</b>b", "a b"],
    ["10&nbsp;km", "10 km"],
    ["<b>東京</b>\u3000<b>大阪</b>", "東京 大阪"],
    ["<b>a</b>&emsp;<b>b</b>", "a b"],
    ["<b>12</b>&thinsp;<b>500</b>", "12 500"],
    ["<b>12</b>&#8239;<b>500</b>", "12 500"],
    ["<td>a&nbsp;</td>b", "a b"],
  ])("%s", (html, text) => expect(textOf(`<p>${html}</p>`)).toBe(text));

  it.each(["inter<wbr>national", "inter&shy;national", "inter<b>national</b>", "inter&ZeroWidthSpace;national"])(
    "and a place where a line may break does not: %s",
    (html) => {
      expect(textOf(`<p>${html}</p>`)).toBe("international");
      expect(readable(html.replace(/<b>|<\/b>/g, ""), "markdown").text).toBe("international");
    },
  );
});

describe("text that screen readers skip", () => {
  it.each([
    ['<span aria-hidden="true">$19.99</span>', "$19.99"],
    ['<span class="sr-only">Price: 19 dollars</span><span aria-hidden=true>$19.99</span>', "$19.99"],
    ['<span aria-hidden=true>$19<sup>99</sup></span><span class="visually-hidden">$19.99</span>', "$19^99"],
    [
      '<style>.a-offscreen{position:absolute;left:-9999px}</style><span class="a-offscreen">$19.99</span><span aria-hidden=true>$19.99</span>',
      "$19.99",
    ],
    ["<ruby><span aria-hidden=true>漢</span><rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", "漢(kan)"],
    ["<ruby>漢<rt>kan</rt>字<rt>ji</rt></ruby>です", "漢(kan)字(ji)です"],
    ['<div class="modal fade" role=dialog aria-hidden=true>Subscribe</div>Berths', "Berths"],
    ["<p aria-hidden=true style='display:none'>No</p>Berths", "Berths"],
  ])("is read if it is on the screen: %s", (html, text) => expect(textOf(html)).toBe(text));
});

describe("the links of a page", () => {
  const linksOf = (html: string, links_from?: number) => readable(html, "html", "https://a.example/", { links_from });

  it("have the text of the link, not of the picture with the same address", () => {
    const { links } = linksOf("<a href=/b><img src=b.png></a> <a href=/b>Berths</a> <a href=/b>More</a>");
    expect(links).toEqual([{ text: "Berths", url: "https://a.example/b" }]);
  });

  it("are counted beyond the listed hundred, also with long texts and addresses, and had by a second call", () => {
    const long = [
      `<a href=/t>${"word ".repeat(30)}</a>`,
      `<a href=/${"x".repeat(400)}>long</a>`,
      "<a href=/p><img></a>",
    ];
    const many = Array.from({ length: 150 }, (_, at) => `<a href=/n${at}>n${at}</a>`);
    const first = linksOf([...long, ...many].join(" "));
    expect(first.text.match(/^- /gm)).toHaveLength(100);
    expect(first.unlisted).toEqual({ count: 53, from: 100 });
    const second = linksOf([...long, ...many].join(" "), 100);
    expect(second.text.match(/^- /gm)).toHaveLength(53);
    expect(second.unlisted).toBeUndefined();
    expect(second.text).toContain(`https://a.example/${"x".repeat(400)}`);
    expect(second.text).toContain("- https://a.example/p");
  });

  it("with long texts are told even if few are listed", () => {
    const { text, unlisted } = linksOf(`<a href=/a>short</a> <a href=/t>${"word ".repeat(30)}</a>`);
    expect(text.match(/^- /gm)).toHaveLength(1);
    expect(unlisted).toEqual({ count: 1, from: 1 });
  });
});
