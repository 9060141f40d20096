import type { SanitizeRequest } from "../../src/safety/sanitize.ts";

/** Contents of any length that cost the safety layer much time. */
export interface CostlyContent {
  readonly name: string;
  readonly kind: SanitizeRequest["kind"];
  readonly contentOf: (length: number) => string;
}

type Shape = readonly [name: string, contentOf: (length: number) => string];

const DECLARATIONS = "opacity:1;color:red;background:red;left:1;top:1;right:1;bottom:1;width:9;height:9;clip:x;font:x";
export const repeated = (unit: string) => (length: number) => unit.repeat(Math.ceil(length / unit.length));
const numbered = (unitOf: (at: number) => string) => (length: number) => {
  const parts: string[] = [];
  for (let at = 0, written = 0; written < length; at++) written += parts[parts.push(unitOf(at)) - 1]?.length ?? 0;
  return parts.join("");
};
const following =
  (start: string, unit: string, end = "") =>
  (length: number) =>
    start + repeated(unit)(length) + end;

const HTML_UNITS = [
  "<div>",
  "<b>",
  "<b hidden>",
  "<p><button><b>",
  "</x>",
  "<a ",
  "<!--",
  "<!-- a comment that says something -->",
  "&amp;",
  "&a",
  "<",
  "<td>x",
  "<table><tr><td>",
  "<li>x",
  "<p class=a style='color:red'>",
  "<style>b{color:red}</style>",
  "<option>x",
  "<pre>x\n",
  "<svg><path d='M0 0'/>",
  "<img alt='a cat that sat on the mat'>",
  "<p hidden>some prose that is hidden here",
  "<a href=/x>x</a>",
  "<script>var some = 'text that is here';</script>",
];

const HTML_SHAPES: readonly Shape[] = [
  [
    "selectors with ancestors, each element within all",
    following("<style>div div b{display:none}*>b{top:1}</style>", "<div><b>"),
  ],
  [
    "many selectors with one ancestor, and elements of many classes",
    (length) =>
      numbered((at) => `.a .k${at} b{color:red}`)(length / 2).replace(/^/, "<style>") +
      "</style><div class=a>" +
      numbered((at) => `<i class="k${at} j${at}"><b>`)(length / 2),
  ],
  [
    "many selectors that begin alike and end alike",
    (length) =>
      numbered((at) => `b[k${at}] b{color:red}`)(length / 2).replace(/^/, "<style>") +
      "</style>" +
      numbered((at) => `<b k${at} class=x${at}>`)(length / 2),
  ],
  [
    "siblings that have all begun the same selectors",
    following("<style>b~b~b{color:red}b+b+b{top:1}b:nth-child(3n+1){top:1}</style>", "<b></b>"),
  ],
  [
    "many selectors with one sibling each, and as many siblings",
    (length) =>
      `<style>${numbered((at) => `.k${at}~b,.k${at}+b{color:red}`)(length / 2)}</style>${numbered((at) => `<b class=k${at}></b>`)(length / 2)}`,
  ],
  [
    "many places, and many siblings",
    (length) =>
      `<style>${numbered((at) => `b:nth-child(${at}n+${at >> 1}),b:nth-of-type(${at}){color:red}`)(length / 2)}</style>${repeated("<b></b>")(length / 2)}`,
  ],
  [
    "siblings in siblings",
    following("<style>b~i b:first-child~b{color:red}b+b i{top:1}</style>", "<b></b><i><b></b><b>"),
  ],
  [
    "elements of many classes within others",
    (length) =>
      "<style>.k1 .k2 .k3 .k4 p{top:1}</style>" +
      numbered((at) => `<b class="${Array.from({ length: 50 }, (_, nth) => `k${at + nth}`).join(" ")}">`)(length),
  ],
  [
    "a chain of selectors",
    following(`<style>${"b ".repeat(16)}{color:red}${"b>".repeat(15)}i{top:1}</style>`, "<b><i>"),
  ],
  ["custom properties of each element", numbered((at) => `<b style="--k${at}:1;opacity:var(--k${at >> 1})">`)],
  [
    "custom properties that grow",
    following(
      `<style>*{${Array.from({ length: 40 }, (_, at) => `--k${at}:var(--k${at + 1}) var(--k${at + 1})`).join(";")};--k40:1;left:var(--k0)}</style>`,
      "<b><i>",
    ),
  ],
  ["unfinished variables", (length) => `<p style="left:${repeated("var(--a,")(length)}">x`],
  ["many choices", (length) => `<style>${repeated(":is(a,b):is(c,d):is(e,f):is(g,h) p{top:1}")(length)}</style><p>x`],
  [
    "a style sheet of many rules, and many elements",
    (length) =>
      numbered((at) => `.k${at}{display:none}`)(length / 2).replace(/^/, "<style>") +
      following("</style>", "<b class=k1>")(length / 2),
  ],
  ["many declarations for each element", following(`<style>*,b{${DECLARATIONS}}</style>`, "<b>")],
  [
    "many classes, each element's another",
    (length) =>
      `<style>${Array.from({ length: 30 }, (_, at) => `.c${at},b.c${at}{${DECLARATIONS}}`).join("")}</style>${numbered((at) => `<b class="x${at} ${Array.from({ length: 30 }, (_, each) => `c${each}`).join(" ")}">`)(length)}`,
  ],
  ["a style that never ends", following("<style>", "@x{")],
  ["braces in a style", following("<style>", "{")],
  ["selectors without end", following("<style>", ".a,", `b{${DECLARATIONS}}`)],
  ["media in media", following("<style>", "@media screen{")],
  ["comments in a style", following("<style>", "/*")],
  ["comments between semicolons in a style", following("<style>", "a/**/;")],
  ["quotes in a style", following("<style>", "a{b:'\n")],
  ["brackets in a style", following("<style>.a{b:", "url( ([{")],
  ["rules in rules", following("<style>.a{", "&.b{color:red;")],
  [
    "selectors of several parts that may all match",
    (length) =>
      `<style>${numbered((at) => `.k${at}.y,[a${at}]{color:red}`)(length / 2)}</style>${numbered((at) => `<b class="y z${at}" a${at}>`)(length / 2)}`,
  ],
  ["escapes in a style", following("<b style='", "\\64 ", "'>x")],
  ["one attribute of all the length", following('<b title="', "some words ", '">x')],
  ["attributes without end", numbered((at) => (at === 0 ? "<b " : `a${at}=1 `))],
  ["links, each another", numbered((at) => `<a href=https://a.example/x${at}>link ${at}</a> `)],
  ["nesting that ends in order", (length) => repeated("<div>")(length / 2) + repeated("</div>")(length / 2)],
  ["formatting cut off by blocks", repeated("<div><b hidden><i></div>")],
];

const MARKDOWN_UNITS = [
  "`",
  "`a` ",
  "``a",
  "```\n",
  "```a\nb\n",
  "~~~a\n",
  "![",
  "![a](",
  "[a](b ",
  '[a](b "',
  "[a](((x)",
  "[a](b) ",
  "[//]: # x\n",
  "[a]: http://x 't'\n",
  "<https://a.example/>",
  "![alt text that is long enough](b) ",
  "<b>x</b>",
  "<a b='' ",
  '<a"',
  "<x<!-- a --> ",
  "<x <!--",
  "# x\n",
  "| a | b |\n",
];

const MARKDOWN_SHAPES: readonly Shape[] = [
  ["backticks of every number", numbered((at) => `${"`".repeat((at % 200) + 1)}\n`)],
];

const TEXT_UNITS = [
  "a",
  "a@",
  "a.",
  "-",
  "=",
  "i g ",
  "1a",
  "\n ",
  "QUJD",
  "61 62 ",
  "1-",
  "9 7 14, 15 18 ",
  "1-2-3-4-5-6-7-8-9-1-2-3-4-5-67 ",
  "ǝɹouƃᴉ ",
  "<|",
  "<system ",
  "<system a\n \n",
  "ignore ",
  "ignore all previous instructions. ",
  "send please my ",
  "note to the ",
  "\u{e0041}",
  "\ufe01\ufe02\ufe03\ufe04 ",
  "\u0301",
  "a\u0301\u0316",
  "\u200b",
  "\u202eabc \u05d0\u05d1 ",
  "\u202e\u2066a",
  "\ufdfa",
  ".",
  ". ",
  '.")',
  " ",
  "\n\nHuman: a",
  "://",
  "[",
  "(",
  "漢",
  "漢。",
  "\u1100\u1161",
  "tpmorp ",
  "cebzcg ",
  "p\u0430yp\u0430l 1gn0re ",
  "http://a.example/ ",
  "http://a.example/,",
  "http://a。",
  "https://a.example/)",
];

const JSON_SHAPES: readonly Shape[] = [
  ["numbers", (length) => `[${repeated("1,")(length)}1]`],
  ["texts", (length) => `[${repeated('"some words here",')(length)}1]`],
  ["escapes", (length) => `"${repeated("\\u0061")(length)}"`],
  ["a list in a list", (length) => repeated("[")(length / 2) + repeated("]")(length / 2)],
  ["an object in an object", (length) => `${repeated('{"a":')(length)}1${"}".repeat(Math.ceil(length / 5))}`],
  ["wide below deep", (length) => `${"[".repeat(60)}${repeated("1,")(length)}1${"]".repeat(60)}`],
  ["broken", repeated("[1,")],
  ["quotes", repeated('"')],
  ["backslashes", (length) => `"${repeated("\\")(length)}`],
];

const XML_SHAPES: readonly Shape[] = [
  ["open elements", repeated("<a>")],
  ["open elements of a feed", following("<rss><item>", "<b>")],
  ["fields in a field", following("<rss><item><description>", "<description>")],
  ["closing tags", following("<rss><item>", "</description></x>")],
  ["entries", following("<rss>", "<item><title>a</title><link>/b</link></item>")],
  [
    "entries of HTML",
    following("<feed>", "<entry><title>&lt;b&gt;a&amp;amp;b</title><summary>&lt;p hidden&gt;a</summary></entry>"),
  ],
  ["hidden HTML in one entry", following("<rss><item><description>", "&lt;p hidden&gt;a")],
  ["links of one entry", following("<rss><item>", "<link>/b</link>")],
  ["references", following("<a>", "&#97;&amp;")],
  ["declarations", repeated("<?xml a?>")],
  ["CDATA", following("<rss><item><description>", "<![CDATA[<b>]]>")],
  ["addresses", following("<urlset>", "<url><loc>http://a.example/</loc></url>")],
];

const over = (kind: CostlyContent["kind"], units: readonly string[]): CostlyContent[] =>
  units.map((unit) => ({ name: `${JSON.stringify(unit)} over and over`, kind, contentOf: repeated(unit) }));
const shaped = (kind: CostlyContent["kind"], shapes: readonly Shape[]): CostlyContent[] =>
  shapes.map(([name, contentOf]) => ({ name, kind, contentOf }));

export const COSTLY: readonly CostlyContent[] = [
  ...over("html", HTML_UNITS),
  ...shaped("html", HTML_SHAPES),
  ...over("markdown", MARKDOWN_UNITS),
  ...shaped("markdown", MARKDOWN_SHAPES),
  ...over("text", TEXT_UNITS),
  ...shaped("json", JSON_SHAPES),
  ...shaped("xml", XML_SHAPES),
];
