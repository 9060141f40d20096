import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PACKAGES = [
  "@mozilla/readability@0.6.0",
  "linkedom@0.18.12",
  "jsdom@26.1.0",
  "turndown@7.2.0",
  "node-html-markdown@1.3.0",
  "html-to-text@9.0.5",
  "@extractus/article-extractor@8.0.19",
  "defuddle@0.19.4",
  "unfluff@3.2.0",
];

/** The results of one extractor on all pages. */
export interface ExtractorMeasure {
  readonly name: string;
  /** The share of each page's sentences in the extracted text, averaged over pages. */
  readonly fidelity: number;
  /** Share of pages that lost no sentence. */
  readonly whole: number;
  readonly ms_per_100_kb: number;
}

/**
 * Each extractor as in its readme. Sentences are compared by letters and digits, so markup in the output does not
 * matter.
 */
const SCRIPT = `
import { readFileSync } from "node:fs";
const [, , own, data, with_peers, rounds] = process.argv;
const { readable } = await import(own);
const contenders = new Map([["Purser", (html) => readable(html, "html").text]]);
if (with_peers === "yes") {
  const { Readability } = await import("@mozilla/readability");
  const { parseHTML } = await import("linkedom");
  const { JSDOM, VirtualConsole } = await import("jsdom");
  const { default: Turndown } = await import("turndown");
  const { NodeHtmlMarkdown } = await import("node-html-markdown");
  const { convert } = await import("html-to-text");
  const { extractFromHtml } = await import("@extractus/article-extractor");
  const { Defuddle } = await import("defuddle/node");
  const { default: unfluff } = await import("unfluff");
  const address = "https://page.example/";
  const article = (found, text) => (found ? (found.title ?? "") + "\\n" + text : "");
  const turndown = new Turndown();
  const markdown = new NodeHtmlMarkdown();
  contenders.set("@mozilla/readability on linkedom", (html) => {
    const found = new Readability(parseHTML(html).document).parse();
    return article(found, found?.textContent);
  });
  contenders.set("@mozilla/readability on jsdom", (html) => {
    const { window } = new JSDOM(html, { virtualConsole: new VirtualConsole() });
    const found = new Readability(window.document).parse();
    window.close();
    return article(found, found?.textContent);
  });
  contenders.set("turndown", (html) => turndown.turndown(html));
  contenders.set("node-html-markdown", (html) => markdown.translate(html));
  contenders.set("html-to-text", (html) => convert(html, { wordwrap: false }));
  contenders.set("@extractus/article-extractor", async (html) => {
    const found = await extractFromHtml(html, address);
    return article(found, found?.content);
  });
  contenders.set("defuddle on linkedom", async (html) => {
    const found = await Defuddle(parseHTML(html).document, address);
    return article(found, found.content);
  });
  contenders.set("unfluff", (html) => { const found = unfluff(html); return article(found, found.text); });
}
const letters = (text) => text.normalize("NFKC").replace(/\\p{Default_Ignorable_Code_Point}/gu, "").toLowerCase().replace(/[^\\p{L}\\p{N}]+/gu, "");
const bare = (text) => text.replace(/<[^<>]*>/g, "").replace(/&#(\\d+);/g, (_, code) => String.fromCodePoint(Math.min(code, 0x10ffff))).replace(/&(amp|lt|gt|quot|nbsp);/g, (_, name) => ({ amp: "&", lt: "<", gt: ">", quot: '"', nbsp: " " })[name]);
const pages = readFileSync(data, "utf8").split("\\n").filter(Boolean).map((line) => JSON.parse(line))
  .filter(({ kind, label, keep }) => kind === "html" && label === "benign" && keep?.length > 0);
const bytes = pages.reduce((sum, { content }) => sum + Buffer.byteLength(content), 0);
const cpuMs = () => { const { user, system } = process.threadCpuUsage(); return (user + system) / 1000; };
const quiet = () => {};
const found = new Map([...contenders.keys()].map((name) => [name, { shares: [], ms: [] }]));
const { log } = console;
Object.assign(console, { log: quiet, warn: quiet, error: quiet });
for (let round = 0; round < Number(rounds); round++) {
  for (const [name, extract] of contenders) {
    const measure = found.get(name);
    let ms = 0;
    for (const { content, keep } of pages) {
      const from = cpuMs();
      let text = "";
      try { text = (await extract(content)) ?? ""; } catch {}
      ms += cpuMs() - from;
      if (round > 0) continue;
      const [one, other] = [letters(text), letters(bare(text))];
      measure.shares.push(keep.filter((each) => one.includes(letters(each)) || other.includes(letters(each))).length / keep.length);
    }
    measure.ms.push(ms);
  }
}
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
log(JSON.stringify([...found].map(([name, { shares, ms }]) => ({
  name, fidelity: mean(shares), whole: mean(shares.map((share) => (share === 1 ? 1 : 0))),
  ms_per_100_kb: (ms.toSorted((a, b) => a - b)[Math.floor(ms.length / 2)] * 100_000) / bytes,
}))));
`;

/**
 * Runs Purser's extraction, and with `peers` extractors from npm installed into a temporary folder, over the benign
 * pages of a file of labelled pages. One process, one thread, in turn; the time is that thread's. Throws when the
 * registry is unreachable.
 */
export function measureExtractors(own: string, data: string, { peers, rounds }: { peers: boolean; rounds: number }) {
  const folder = mkdtempSync(join(tmpdir(), "extractors-"));
  try {
    const quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--legacy-peer-deps", "--ignore-scripts"];
    if (peers)
      execFileSync("npm", ["install", "--prefix", folder, ...quiet, ...PACKAGES], {
        stdio: "ignore",
        timeout: 300_000,
      });
    const main = join(folder, "extract.mjs");
    writeFileSync(main, SCRIPT);
    const given = [main, own, data, peers ? "yes" : "no", String(rounds)];
    const told = execFileSync(process.execPath, given, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    return JSON.parse(told) as ExtractorMeasure[];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
