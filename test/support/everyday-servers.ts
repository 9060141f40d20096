import { gzipSync } from "node:zlib";
import { answerAsMcp, mcpTool } from "./mcp-messages.ts";
import { pdfOf } from "./pdf.ts";
import { type Site, startSite } from "./sites.ts";

/** Servers as they are in the world, each a row: how they write what others write otherwise. */

/** A web server that writes its answers in its own way. */
interface PageHabit {
  habit: string;
  /** Header lines as they are sent; without a Content-Type, there is none. */
  headers?: readonly [name: string, value: string][];
  body: string | Buffer;
  /** The path of the page. */
  path?: string;
  /** Texts that the model gets, without white space at line ends. */
  reads?: readonly string[];
  /** Texts that the model does not get. */
  hides?: readonly string[];
  /** The addresses that may be opened after it; `~` is the site. */
  links?: readonly string[];
  /** The reason why the model gets nothing. */
  refused?: string;
}

const type = (value: string): [string, string][] => [["Content-Type", value]];
const bytes = (hex: string) => Buffer.from(hex.replaceAll(" ", ""), "hex");
const joined = (...parts: (string | Buffer)[]) => Buffer.concat(parts.map((part) => Buffer.from(part as string)));
const PADDING = `<script>${"var padding = 1;\n".repeat(100)}</script>`;
const [KONNICHIWA, PRIVET, NI_HAO] = ["こんにちは", "Привет", "你好"];
const SHIFT_JIS = bytes("82b1 82f1 82c9 82bf 82cd");
const WINDOWS_1251 = bytes("cff0e8e2e5f2");
const KOI8_R = bytes("f0d2c9d7c5d4");
const GBK = bytes("c4e3bac3");
const PNG = bytes(
  "89504e470d0a1a0a0000000d494844520000000100000001080600000 01f15c4890000000a49444154789c6300010000050001".replace(
    " ",
    "",
  ),
);
const ZIP = joined(bytes("504b0304140000000800"), Buffer.alloc(30), "report.txt", bytes("00ff0312"));

const charset = (habit: string, content_type: string, body: string | Buffer, ...reads: string[]): PageHabit => ({
  habit,
  headers: type(content_type),
  body,
  reads,
});

/** How pages say in which charset they are written (HTML standard, "determining the character encoding"). */
export const CHARSET_HABITS: readonly PageHabit[] = [
  charset(
    "an unknown label in the header, and a meta",
    "text/html; charset=none",
    joined('<meta charset="shift_jis"><p>', SHIFT_JIS),
    KONNICHIWA,
  ),
  charset(
    "cp932 in the header, and a meta",
    "text/html; charset=cp932",
    joined('<meta charset="shift_jis"><p>', SHIFT_JIS),
    KONNICHIWA,
  ),
  charset("cp932 in the header alone", "text/plain; charset=cp932", SHIFT_JIS, KONNICHIWA),
  charset("an unknown label, and UTF-8", "text/html; charset=utf8mb4", `<p>${NI_HAO}`, NI_HAO),
  charset(
    "no charset at all, and no UTF-8",
    "text/html",
    joined("<p>caf", bytes("e9"), " na", bytes("ef"), "ve"),
    "café naïve",
  ),
  charset(
    "no charset at all, and UTF-8 with one damaged character",
    "text/html",
    joined(`<p>${NI_HAO}${NI_HAO}`, bytes("e4"), " end"),
    NI_HAO,
  ),
  charset(
    "a meta after 1,024 bytes",
    "text/html",
    joined(PADDING, '<meta charset="windows-1251"><p>', WINDOWS_1251),
    PRIVET,
  ),
  charset(
    "a meta in the body after 100 KB",
    "text/html",
    joined(
      PADDING.repeat(60),
      '<p>x</p><meta http-equiv="Content-Type" content="text/html; charset=koi8-r"><p>',
      KOI8_R,
    ),
    PRIVET,
  ),
  charset(
    "a later meta, after one in a comment and one in a script",
    "text/html",
    joined(
      PADDING,
      "<!-- <meta charset=big5> --><script>var a = '<meta charset=big5>'</script><meta charset=gbk><p>",
      GBK,
    ),
    NI_HAO,
  ),
  charset(
    "the charset of a script",
    "text/html",
    `<script src="a.js" charset="windows-1251"></script><p>${NI_HAO}`,
    NI_HAO,
  ),
  charset(
    "the charset of a link",
    "text/html",
    `<link rel="stylesheet" href="a.css" charset="iso-8859-1"><p>${NI_HAO}`,
    NI_HAO,
  ),
  charset("charset= in a comment", "text/html", `<!-- charset=windows-1251 --><p>${NI_HAO}`, NI_HAO),
  charset(
    "charset= in a description",
    "text/html",
    `<meta name="description" content="use charset=koi8-r here"><p>${NI_HAO}`,
    NI_HAO,
  ),
  charset(
    "charset= in a script's text",
    "text/html",
    `<script>document.charset = "gbk"; x = { charset: "big5" }</script><p>${NI_HAO}`,
    NI_HAO,
  ),
  charset("charset= in an address", "text/html", `<a href="/?charset=windows-1251">a</a><p>${NI_HAO}`, NI_HAO),
  charset("capitals and quotes", 'Text/HTML; Charset="Windows-1251"', joined("<p>", WINDOWS_1251), PRIVET),
  charset("a byte order mark and another header", "text/html; charset=windows-1251", `\ufeff<p>${NI_HAO}`, NI_HAO),
  charset(
    "the header's charset, against the page's",
    "text/html; charset=koi8-r",
    joined("<meta charset=utf-8><p>", KOI8_R),
    PRIVET,
  ),
  charset("UTF-16 in a meta, which is UTF-8", "text/html", `<meta charset="utf-16"><p>${NI_HAO}`, NI_HAO),
  charset("gb2312", "text/html; charset=gb2312", joined("<p>", GBK), NI_HAO),
  charset("euc-kr", "text/html; charset=ks_c_5601-1987", joined("<p>", bytes("bec8b3e7")), "안녕"),
  charset("big5", "text/plain; charset=big5", bytes("a741a66e"), NI_HAO),
  charset(
    "iso-2022-jp",
    "text/html; charset=iso-2022-jp",
    joined("<p>", bytes("1b24422433 2473244b2441244f1b2842")),
    KONNICHIWA,
  ),
  charset(
    "utf-16 with a byte order mark",
    "text/csv",
    Buffer.from(`\ufeffname,${NI_HAO}`, "utf16le"),
    `name,${NI_HAO}`,
  ),
  charset(
    "an XML declaration",
    "application/xml",
    joined('<?xml version="1.0" encoding="windows-1251"?><a>', WINDOWS_1251, "</a>"),
    PRIVET,
  ),
  charset(
    "an XML declaration of a feed that is served as HTML",
    "text/html",
    joined(
      '<?xml version="1.0" encoding="windows-1251"?><rss><channel><title>',
      WINDOWS_1251,
      "</title></channel></rss>",
    ),
    `# ${PRIVET}`,
  ),
];

/** What servers write into the headers of an answer. */
export const HEADER_HABITS: readonly PageHabit[] = [
  ...[
    "UTF-8",
    "none",
    "binary",
    "aws-chunked",
    "identity",
    "utf8",
    "ISO-8859-1",
    "8bit",
    "Identity, NONE",
    '""',
    "text/html",
  ].map(
    (coding): PageHabit => ({
      habit: `Content-Encoding: ${coding}`,
      headers: [
        ["Content-Type", "text/plain"],
        ["Content-Encoding", coding],
      ],
      body: "Berth 7",
      reads: ["Berth 7"],
    }),
  ),
  {
    habit: "Content-Encoding: gzip, and another line for UTF-8",
    headers: [
      ["Content-Type", "text/plain"],
      ["Content-Encoding", "gzip"],
      ["Content-Encoding", "UTF-8"],
    ],
    body: gzipSync("Berth 7"),
    reads: ["Berth 7"],
  },
  {
    habit: "two Content-Types, the last one with the charset",
    headers: [
      ["Content-Type", "text/plain"],
      ["Content-Type", "text/html; charset=koi8-r"],
    ],
    body: joined("<p>", KOI8_R),
    reads: [PRIVET],
    hides: ["<p>"],
  },
  {
    habit: "two Content-Types of one type, the first one with the charset",
    headers: [
      ["Content-Type", "text/html; charset=koi8-r"],
      ["Content-Type", "text/html"],
    ],
    body: joined("<p>", KOI8_R),
    reads: [PRIVET],
  },
  {
    habit: "two Content-Types, the last one invalid",
    headers: [
      ["Content-Type", "text/html; charset=koi8-r"],
      ["Content-Type", "*"],
      ["Content-Type", "*/*"],
    ],
    body: joined("<p>", KOI8_R),
    reads: [PRIVET],
    hides: ["<p>"],
  },
  {
    habit: "two types in one line, with a comma in quotes",
    headers: [["Content-Type", 'application/octet-stream; a="b,c", application/json']],
    body: '{"berth":"\\u0037 free"}',
    reads: ['"berth": "7 free"'],
  },
  ...["html", "charset=utf-8", "text", ";", "text/html/x"].map(
    (value): PageHabit => ({
      habit: `the invalid type ${value}`,
      headers: type(value),
      body: "<p>Berth 7</p><p hidden>quartz</p>",
      reads: ["Berth 7"],
      hides: ["quartz"],
    }),
  ),
];

const RSS = `<?xml version="1.0" encoding="UTF-8"?><!-- zebra -->
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:atom="http://www.w3.org/2005/Atom">
<channel><title>Harbour &amp;amp; quay</title><link>https://harbour.test/</link><atom:link href="https://harbour.test/rss" rel="self"/>
<description>Daily news</description><image><title>Logo</title><link>https://harbour.test/logo</link></image>
<item><title><![CDATA[Berth 7 is <b>free</b>]]></title><link>https://harbour.test/news/7?a=1&amp;b=2</link><pubDate>Mon, 02 Mar 2026 09:00:00 GMT</pubDate><dc:creator>Ann</dc:creator>
<description>short</description><content:encoded><![CDATA[<p>From <a href="/noon">noon</a>.</p><p hidden>quartz</p>]]></content:encoded></item>
<item><title>Berth 8</title><link>https://harbour.test/news/8</link><description>&lt;p&gt;Closed &amp;mdash; repairs&lt;/p&gt;&lt;!-- zebra</description></item>
<item><title>Berth 9</title><guid isPermaLink="false">tag:9</guid><enclosure url="https://harbour.test/9.mp3" type="audio/mpeg"/><description>Busy</description></item>
<item><title>Berth 10</title><guid>https://harbour.test/news/10</guid><description>New</description></item>
</channel></rss>`;
const ATOM = `<feed xmlns="http://www.w3.org/2005/Atom"><title type="html">Tides &amp;amp; times</title><link href="https://harbour.test/atom" rel="self"/><link href="https://harbour.test/"/>
<entry><title>High tide</title><link rel="alternate" href="/tides/1"/><link rel="edit" href="/tides/1/edit"/><updated>2026-03-02T09:00:00Z</updated><author><name>Ben</name></author>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>At <b>noon</b>, if 5 &lt; 6</p><p hidden="hidden">quartz</p></div></content></entry>
<entry><title>Low tide &lt;3 m, a &lt;b&gt;</title><link href="/tides/2"/><summary>At six</summary></entry></feed>`;

/** Types of text, and what servers call them. */
export const TYPE_HABITS: readonly PageHabit[] = [
  ...[
    "text/x-python",
    "text/css",
    "text/vtt",
    "text/x-log; charset=utf-8",
    "text/csv",
    "text/tab-separated-values",
    "text/yaml",
    "application/x-yaml",
    "application/yaml",
    "application/csv",
    "application/javascript",
    "application/toml",
    "application/sql",
    "application/octet-stream",
    "binary/octet-stream",
    "application/force-download",
    "message/rfc822",
    "application/x-subrip",
    "application/x-berths",
  ].map(
    (value): PageHabit => ({
      habit: `text as ${value}`,
      headers: type(value),
      body: "berth: 7 <free>\n",
      reads: ["berth: 7 <free>"],
    }),
  ),
  {
    habit: "a calendar",
    headers: type("text/calendar"),
    body: "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Berth 7\r\nURL:http://h.test/event\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
    reads: ["SUMMARY:Berth 7"],
    links: ["http://h.test/event"],
  },
  {
    habit: "a calendar of an unknown type",
    headers: type("application/x-ical"),
    body: "BEGIN:VCALENDAR\r\nSUMMARY:Berth 7\r\nEND:VCALENDAR",
    reads: ["SUMMARY:Berth 7"],
  },
  ...[
    "application/json",
    "text/json",
    "application/vnd.api+json",
    "application/problem+json; charset=utf-8",
    "application/x-json",
    "application/json5",
    "application/geo+json",
    "text/x-json",
    "application/manifest+json",
    "application/x-custom",
    "application/octet-stream",
  ].map(
    (value): PageHabit => ({
      habit: `JSON as ${value}`,
      headers: type(value),
      body: '{"berth":"\\u0037 free"}',
      reads: ['"berth": "7 free"'],
    }),
  ),
  ...[
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/jsonlines",
    "application/x-jsonlines",
    "application/json-seq",
    "text/x-ndjson",
  ].map(
    (value): PageHabit => ({
      habit: `lines of JSON as ${value}`,
      headers: type(value),
      body: '{"berth":"\\u0037 free"}\n{"berth":8}\n',
      reads: ['{"berth":"7 free"}', '{"berth":8}'],
    }),
  ),
  ...[
    "application/xml",
    "text/xml",
    "application/soap+xml",
    "image/svg+xml",
    "application/vnd.custom+xml",
    "application/octet-stream",
  ].map(
    (value): PageHabit => ({
      habit: `XML as ${value}`,
      headers: type(value),
      body: '<?xml version="1.0"?><!-- zebra --><port name="A&amp;B"><berth>&#55; free</berth></port>',
      reads: ['<port name="A&B"><berth>7 free</berth></port>'],
      hides: ["zebra"],
    }),
  ),
  {
    habit: "a page as application/xml",
    headers: type("application/xml"),
    body: '<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><body><p>Berth 7</p><p hidden="hidden">quartz</p></body></html>',
    reads: ["Berth 7"],
    hides: ["quartz", "<p>"],
  },
  {
    habit: "a page as application/octet-stream",
    headers: type("application/octet-stream"),
    body: "<!-- a --><!DOCTYPE html><html><p>Berth 7</p><p hidden>quartz</p>",
    reads: ["Berth 7"],
    hides: ["quartz"],
  },
  {
    habit: "a page without a type",
    headers: [],
    body: "<p>Berth 7</p><p hidden>quartz</p>",
    reads: ["Berth 7"],
    hides: ["quartz"],
  },
  {
    habit: "Markdown by its path",
    headers: type("application/octet-stream"),
    path: "/README.md",
    body: "# Berths\n<!-- quartz -->\nfree",
    reads: ["# Berths"],
    hides: ["quartz"],
  },
  ...[
    "application/rss+xml",
    "application/xml",
    "text/xml; charset=utf-8",
    "text/html",
    "text/plain",
    "application/octet-stream",
    "application/rss",
    "application/x-rss+xml",
  ].map(
    (value): PageHabit => ({
      habit: `a feed as ${value}`,
      headers: type(value),
      body: RSS,
      reads: [
        "# Harbour & quay\nhttps://harbour.test/\nDaily news",
        "## Berth 7 is free\nhttps://harbour.test/news/7?a=1&b=2\nMon, 02 Mar 2026 09:00:00 GMT, Ann\nFrom noon.",
        "## Berth 8\nhttps://harbour.test/news/8\nClosed — repairs",
        "## Berth 9\nhttps://harbour.test/9.mp3\nBusy",
        "## Berth 10\nhttps://harbour.test/news/10\nNew",
      ],
      hides: ["quartz", "zebra", "short", "Logo"],
      links: [
        "https://harbour.test/",
        "https://harbour.test/news/7?a=1&b=2",
        "https://harbour.test/news/8",
        "https://harbour.test/9.mp3",
        "~/noon",
      ],
    }),
  ),
  ...["application/atom+xml", "application/xml", "text/html"].map(
    (value): PageHabit => ({
      habit: `an Atom feed as ${value}`,
      headers: type(value),
      body: ATOM,
      reads: [
        "# Tides & times\nhttps://harbour.test/",
        "~/tides/1\n2026-03-02T09:00:00Z, Ben\nAt noon, if 5 < 6",
        "## Low tide <3 m, a <b>\n~/tides/2\nAt six",
      ],
      hides: ["quartz", "/edit"],
      links: ["https://harbour.test/", "~/tides/1", "~/tides/2"],
    }),
  ),
  {
    habit: "an RSS 1.0 feed",
    headers: type("application/rdf+xml"),
    body: '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"><channel><title>Quays</title></channel><item><title>Quay 3</title><link>http://q.test/3</link></item></rdf:RDF>',
    reads: ["# Quays\n\n## Quay 3\nhttp://q.test/3"],
    links: ["http://q.test/3"],
  },
  {
    habit: "a sitemap",
    headers: type("application/xml"),
    body: '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>https://h.test/a</loc><lastmod>2026-03-02</lastmod></url><url><loc> https://h.test/b </loc></url></urlset>',
    reads: ["https://h.test/a\n2026-03-02\n\nhttps://h.test/b"],
    links: ["https://h.test/a", "https://h.test/b"],
  },
  {
    habit: "a sitemap of sitemaps",
    headers: type("text/xml"),
    body: "<sitemapindex><sitemap><loc>https://h.test/one.xml</loc></sitemap></sitemapindex>",
    reads: ["https://h.test/one.xml"],
    links: ["https://h.test/one.xml"],
  },
  ...[
    "application/pdf",
    "application/octet-stream",
    "text/plain",
    "text/html; charset=utf-8",
    "application/x-download",
    "image/png",
    "application/x-pdf",
    "binary",
  ].map(
    (value): PageHabit => ({
      habit: `a PDF as ${value}`,
      headers: type(value),
      body: Buffer.from(pdfOf([{ text: "Minutes of the meeting", size: 12 }])),
      reads: ["Minutes of the meeting"],
    }),
  ),
  {
    habit: "a PDF after other bytes",
    headers: type("application/octet-stream"),
    body: joined("junk\r\n", bytes("00ff"), Buffer.from(pdfOf([{ text: "Minutes of the meeting", size: 12 }]))),
    reads: ["Minutes of the meeting"],
  },
  {
    habit: "a page as application/pdf",
    headers: type("application/pdf"),
    body: "<!doctype html><p>Sign in</p>",
    reads: ["Sign in"],
  },
  { habit: "nothing, of any type", headers: type("image/png"), body: "", reads: ["HTTP 200"] },
  ...[
    "text/plain",
    "text/html",
    "application/json",
    "application/xml",
    "application/octet-stream",
    "text/csv; charset=windows-1252",
  ].map(
    (value): PageHabit => ({
      habit: `a picture as ${value}`,
      headers: type(value),
      body: PNG,
      refused: "the answer is image/png",
    }),
  ),
  ...["text/html", "application/octet-stream", "application/zip"].map(
    (value): PageHabit => ({
      habit: `an archive as ${value}`,
      headers: type(value),
      body: ZIP,
      refused: "the answer is application/zip",
    }),
  ),
  {
    habit: "bytes of no known type as text",
    headers: type("text/plain"),
    body: Buffer.from(Array.from({ length: 3_000 }, (_, n) => (n * 7919 + (n >> 3)) % 256)),
    refused: "the answer is binary data",
  },
  {
    habit: "a picture",
    headers: type("image/jpeg"),
    body: bytes("ffd8ffe000104a46494600"),
    refused: "the answer is image/jpeg",
  },
  { habit: "sound", headers: type("audio/mpeg"), body: "x", refused: "the answer is audio" },
  {
    habit: "a text that begins like a bitmap",
    headers: type("text/plain"),
    body: "BM is short for benchmark",
    reads: ["BM is short for benchmark"],
  },
  {
    habit: "coloured lines of a terminal",
    headers: type("text/plain"),
    body: "\u001b[1mBerth\u001b[0m 7",
    reads: ["Berth"],
  },
];

/** Where pages put the addresses that they lead to. */
export const LINK_HABITS: readonly PageHabit[] = [
  {
    habit: "text",
    headers: type("text/plain"),
    body: "See http://h.test/one, (http://h.test/two) or http://h.test/three；再读http://h.test/four。",
    links: ["http://h.test/one", "http://h.test/two", "http://h.test/three", "http://h.test/four"],
  },
  {
    habit: "text joined by commas and bars",
    headers: type("text/csv"),
    body: "a,http://h.test/one,http://h.test/two;http://h.test/three|http://h.test/four\n",
    links: ["http://h.test/one", "http://h.test/two", "http://h.test/three", "http://h.test/four"],
  },
  {
    habit: "Markdown",
    headers: type("text/markdown"),
    body: "[one](/one) <http://h.test/two> http://h.test/three. ![p](http://h.test/picture) [four]: http://h.test/four\n\n[five][5]\n\n[5]: /five",
    links: ["~/one", "http://h.test/two", "http://h.test/three", "~/five"],
  },
  {
    habit: "values of JSON",
    headers: type("application/json"),
    body: '{"html_url":"http:\\/\\/h.test\\/one?a=1\\u0026b=2","text":"See http://h.test/two.","next":"/items?page=2","/key":"x"}',
    links: ["http://h.test/one?a=1&b=2", "http://h.test/two", "~/items?page=2"],
  },
  {
    habit: "lines of JSON",
    headers: type("application/x-ndjson"),
    body: '{"url":"http://h.test/one"}\n{"url":"http://h.test/two"}',
    links: ["http://h.test/one", "http://h.test/two"],
  },
  {
    habit: "YAML",
    headers: type("application/yaml"),
    body: "url: http://h.test/one\nother: 'http://h.test/two'",
    links: ["http://h.test/one", "http://h.test/two"],
  },
  {
    habit: "areas",
    headers: type("text/html"),
    body: '<img usemap="#m"><map name=m><area href="/one" alt="One"><area href="two"></map>',
    links: ["~/one", "~/two"],
  },
  {
    habit: "a frameset",
    headers: type("text/html"),
    body: '<html><frameset cols="50%,*"><frame src="/one"><frame src="two.html"></frameset></html>',
    links: ["~/one", "~/two.html"],
  },
  {
    habit: "frames in the page",
    headers: type("text/html"),
    body: '<p>Map</p><iframe src="/one" title="Map">fallback</iframe><embed src="/two.pdf"><object data="/three.pdf"></object>',
    links: ["~/one", "~/two.pdf", "~/three.pdf"],
    hides: ["fallback"],
  },
  {
    habit: "frames that nobody sees, which are no links",
    headers: type("text/html"),
    body: '<p>Map</p><iframe hidden src="/one"></iframe><iframe src="/two" style="display:none"></iframe><iframe src="/three" width="1" height=1></iframe><div hidden><iframe src="/four"></iframe></div><iframe src="javascript:x"></iframe>',
    links: [],
  },
  {
    habit: "meta refresh",
    headers: type("text/html"),
    body: `<meta http-equiv="Refresh" content="0; URL='/next?a=1'"><p>Moved</p>`,
    links: ["~/next?a=1"],
  },
  {
    habit: "meta refresh without url=",
    headers: type("text/html"),
    body: '<meta http-equiv=refresh content="5;next.html"><p>Moved</p>',
    links: ["~/next.html"],
  },
  {
    habit: "meta refresh of the page itself",
    headers: type("text/html"),
    body: '<meta http-equiv=refresh content="300"><p>Board</p>',
    links: [],
  },
];

const asBytes = (text: string) => Buffer.from(text).toString("latin1");

/** The Location of a redirect as it is sent, one character per byte, and the path that a browser then asks for. */
export const LOCATION_HABITS: readonly { location: string; asks: string }[] = [
  { location: asBytes("/münchen/日本?q=é"), asks: "/m%C3%BCnchen/%E6%97%A5%E6%9C%AC?q=%C3%A9" },
  { location: "/caf\xe9?q=\xfc", asks: "/caf%E9?q=%FC" },
  { location: "/hello?name=Ann Lee", asks: "/hello?name=Ann%20Lee" },
  { location: "/two words/a  b", asks: "/two%20words/a%20%20b" },
  { location: "  /padded  ", asks: "/padded" },
  { location: "relative page?a=b c", asks: "/relative%20page?a=b%20c" },
  { location: '/quotes?a="b"<c>', asks: "/quotes?a=%22b%22%3Cc%3E" },
  { location: "/pipes|and{braces}?a=b|c", asks: "/pipes|and%7Bbraces%7D?a=b|c" },
  { location: "/encoded%20once?a=%E9", asks: "/encoded%20once?a=%E9" },
  { location: asBytes("?page=zwölf"), asks: "/from?page=zw%C3%B6lf" },
  { location: "/fragment#a b", asks: "/fragment" },
];

/** A site whose pages are `/0`, `/1` … in the order of the rows, or at their own paths. */
export async function startPageHabits(
  rows: readonly PageHabit[],
): Promise<Site & { addressOf(row: PageHabit): string }> {
  const pathOf = (row: PageHabit) => row.path ?? `/${rows.indexOf(row)}`;
  const pages = rows.map((row) => [
    pathOf(row),
    (_request: unknown, response: import("node:http").ServerResponse) => {
      response.writeHead(200, (row.headers ?? []).flat());
      response.end(row.body);
    },
  ]);
  const site = await startSite(Object.fromEntries(pages));
  return { ...site, addressOf: (row) => site.url + pathOf(row) };
}

/** An MCP server that writes fields in its own way. Each message overrides the plain server's. */
interface McpHabit {
  habit: string;
  /** Fields of the message that answers `initialize`. */
  initialized?: object;
  /** Fields of the message that answers `tools/list`. */
  listed?: object;
  /** Fields of the message that answers `tools/call`. */
  called?: object;
  /** The text that the model gets. */
  reads: string;
  status?: "succeeded" | "failed";
}

const said = (text: string, more: object = {}) => ({ result: { content: [{ type: "text", text }], ...more } });
const listing = (tool: Record<string, unknown>, more: object = {}) => ({
  result: { tools: [mcpTool("act", tool)], ...more },
});

/** contract 7.5.1: null for a field that may be absent means absent. */
export const MCP_HABITS: readonly McpHabit[] = [
  { habit: "isError null", called: said("Berth 7", { isError: null }), reads: "Berth 7" },
  { habit: "_meta null", called: said("Berth 7", { _meta: null }), reads: "Berth 7" },
  { habit: "structuredContent null", called: said("Berth 7", { structuredContent: null }), reads: "Berth 7\n" },
  { habit: "error null beside the result", called: { ...said("Berth 7"), error: null }, reads: "Berth 7" },
  {
    habit: "result null beside the error",
    called: { error: { code: -32602, message: "berth is missing", data: null }, result: null },
    reads: "berth is missing",
    status: "failed",
  },
  {
    habit: "content null beside structured content",
    called: { result: { content: null, structuredContent: { berth: 7, note: null } } },
    reads: '"note": null',
  },
  {
    habit: "annotations and _meta of a part null",
    called: { result: { content: [{ type: "text", text: "Berth 7", annotations: null, _meta: null }] } },
    reads: "Berth 7",
  },
  {
    habit: "fields of annotations and of a resource null",
    called: {
      result: {
        content: [
          { type: "text", text: "Berth 7", annotations: { audience: null, priority: null } },
          { type: "resource", resource: { uri: "a:b", mimeType: null, text: "Quay 3", blob: null, _meta: null } },
          { type: "resource_link", uri: "a:c", name: "Plan", title: null, description: null, size: null },
        ],
      },
    },
    reads: "Berth 7\nQuay 3\n[a resource: Plan, a:c]",
  },
  {
    habit: "instructions, and fields of capabilities and serverInfo null",
    initialized: {
      result: {
        protocolVersion: "2025-06-18",
        capabilities: {
          tools: { listChanged: null },
          prompts: null,
          resources: null,
          logging: null,
          experimental: null,
        },
        serverInfo: { name: "test", version: "1", title: null, websiteUrl: null, icons: null, description: null },
        instructions: null,
        _meta: null,
      },
      error: null,
    },
    reads: "Berth 7",
  },
  {
    habit: "a version of null",
    initialized: { result: { serverInfo: { name: "test", version: null } } },
    reads: "Berth 7",
  },
  { habit: "serverInfo null", initialized: { result: { serverInfo: null } }, reads: "Berth 7" },
  {
    habit: "no serverInfo and no capabilities",
    initialized: { result: { serverInfo: undefined, capabilities: undefined } },
    reads: "Berth 7",
  },
  { habit: "capabilities null", initialized: { result: { capabilities: null } }, reads: "Berth 7" },
  {
    habit: "nextCursor and _meta of the listing null",
    listed: listing({}, { nextCursor: null, _meta: null }),
    reads: "Berth 7",
  },
  {
    habit: "every optional field of a tool null",
    listed: listing({
      title: null,
      description: null,
      outputSchema: null,
      annotations: null,
      icons: null,
      execution: null,
      _meta: null,
    }),
    reads: "Berth 7",
  },
  {
    habit: "fields of a tool's annotations null",
    listed: listing({
      annotations: {
        title: null,
        readOnlyHint: null,
        destructiveHint: null,
        idempotentHint: null,
        openWorldHint: null,
      },
    }),
    reads: "Berth 7",
  },
  {
    habit: "keywords of a schema null",
    listed: listing({
      inputSchema: {
        type: "object",
        properties: {
          berth: { type: "number", description: null, enum: null, items: null, default: null, const: null },
        },
        required: null,
        $defs: null,
        additionalProperties: null,
      },
    }),
    reads: "Berth 7",
  },
  { habit: "a tool without a schema, which is null", listed: listing({ inputSchema: null }), reads: "Berth 7" },
];

/** A server with a habit. `line_end`: it answers with events whose lines end so. */
export async function startMcpHabit(habit: McpHabit, { line_end = "" } = {}): Promise<Site> {
  const site = await startSite({
    "/mcp": (_request, response) => {
      const body = site.requests.at(-1)?.body ?? "";
      const { id, method } = JSON.parse(body || "{}");
      const { initialized, listed = listing({}), called = said("Berth 7") } = habit;
      const own = { initialize: initialized, "tools/list": listed, "tools/call": called }[method as string];
      if (own === undefined) return answerAsMcp(response, body, { tools: [], onCall: () => {} });
      const base = { protocolVersion: "2025-06-18", serverInfo: { name: "test", version: "1" } };
      const fields = own as { result?: object };
      const result = method === "initialize" ? { ...base, ...fields.result } : fields.result;
      const message = JSON.stringify({ jsonrpc: "2.0", id, ...own, ...("result" in own ? { result } : {}) });
      response.writeHead(200, { "content-type": line_end === "" ? "application/json" : "text/event-stream" });
      const events = `event: message\nid: 1\ndata: ${message}\n\n`;
      response.end(line_end === "" ? message : events.replaceAll("\n", line_end));
    },
  });
  return site;
}
