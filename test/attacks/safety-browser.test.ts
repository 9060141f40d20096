import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { visibleText } from "../../src/safety/reading/visible.ts";
import { chromiumBinary, startChromium } from "../support/chromium.ts";

// Random pages with random rules: the words that Chromium displays stay, and the others are hidden. Each failure prints
// its page, and a seed gives the same pages again.

const SEED = 20_261_126;
const PAGES = 300;
const PAGES_AT_ONCE = 50;
const CLASSES = ["a", "b", "c", "d"];
const BLOCKS = ["div", "section", "p", "ul", "table", "span", "h2", "article"];
const PLACES = [":first-child", ":first-of-type", ":nth-child(2)", ":nth-child(odd)", ":nth-child( 2n + 2 )"].concat([
  ":nth-child(-n+2)",
  ":nth-of-type(2)",
  ":nth-of-type(3n-1)",
  ":nth-child(n+3)",
  ":nth-of-type(even)",
]);

const ROOT_SHOWN = "html,head ~ body{display:block!important;visibility:visible!important}";

/** Numbers from 0 to `below`, the same for the same seed (mulberry32). */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

function pageOf(seed: number): { html: string; words: number } {
  const below = randomOf(seed);
  const one = <Item>(items: readonly Item[]): Item => items[below(items.length)] as Item;
  let words = 0;
  const word = () => `w${words++}x`;
  const attributes = () =>
    below(2) === 0 ? "" : ` class="${one(CLASSES)}${below(3) === 0 ? ` ${one(CLASSES)}` : ""}"`;

  const element = (depth: number): string => {
    const name = depth > 2 ? "span" : one(BLOCKS);
    const open = `<${name}${attributes()}>`;
    const items = 1 + below(4);
    const repeat = (make: () => string) => Array.from({ length: items }, make).join("");
    const inner = () => (below(3) === 0 && name !== "p" && name !== "h2" ? repeat(() => element(depth + 1)) : word());
    if (name === "ul") return `${open}${repeat(() => `<li${attributes()}>${inner()}`)}</ul>`;
    if (name === "table") {
      const caption = below(3) === 0 ? `<caption>${word()}</caption>` : "";
      const head = below(3) === 0 ? `<thead><tr><th>${word()}<tbody>` : "";
      return `${open}${caption}${head}${repeat(() => `<tr${attributes()}><td${attributes()}>${word()}<td>${word()}`)}</table>`;
    }
    if (name === "p" || name === "span" || name === "h2") {
      return `${open}${word()}${below(3) === 0 ? `<br><b${attributes()}>${word()}</b><i>${word()}</i>` : ""}</${name}>`;
    }
    return `${open}${below(2) === 0 ? word() : ""}${repeat(() => element(depth + 1))}</${name}>`;
  };

  const compound = (): string => {
    const name = below(2) === 0 ? one(["*", "p", "li", "tr", "td", "div", "span", "b", "section"]) : "";
    const place = below(3) === 0 ? one(PLACES) : "";
    const excluded = below(6) === 0 ? `:not(${one([...PLACES, ".a", ".b", "span", ":is(.c, p)"])})` : "";
    const own = below(2) === 0 || name + place + excluded === "" ? `.${one(CLASSES)}` : "";
    return `${name}${own}${place}${excluded}`;
  };
  const selector = () =>
    Array.from({ length: 1 + below(3) }, compound).reduce(
      (all, each) => `${all}${one([" ", " > ", " + ", "~", "+"])}${each}`,
    );
  const rule = () =>
    `${selector()}${below(4) === 0 ? `, ${selector()}` : ""}{${one(["display:none", "display:none", "display:block", "visibility:hidden", "visibility:visible"])}}`;

  // A page that hides its root counts as visible (src/safety/README.md).
  const sheet = `<style>${Array.from({ length: 1 + below(5) }, rule).join("\n")}${ROOT_SHOWN}</style>`;
  const content = Array.from({ length: 2 + below(4) }, () => element(0)).join("\n");
  const html = one([
    `<!doctype html><html><head><title>t</title>${sheet}</head><body>${content}</body></html>`,
    `<!doctype html><title>t</title>${sheet}${content}`,
    `<!doctype html><body>${sheet}${content}`,
  ]);
  return { html, words };
}

/** The words that Chromium displays, for each page. */
function displayed(page: Page, pages: readonly string[]): Promise<string[][]> {
  return page.evaluate((all) => {
    return all.map((html) => {
      const frame = document.createElement("iframe");
      document.body.append(frame);
      const inner = frame.contentDocument;
      if (inner === null) throw new Error("no document");
      inner.write(html);
      inner.close();
      const words: string[] = [];
      const walker = inner.createTreeWalker(inner.body, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
        const is_shown = node.parentElement?.checkVisibility({ visibilityProperty: true }) === true;
        if (is_shown) words.push(...(node.textContent?.match(/w\d+x/g) ?? []));
      }
      frame.remove();
      return words;
    });
  }, pages);
}

describe.skipIf(chromiumBinary() === null)("a random page with random rules", () => {
  let browser: Browser;
  let page: Page;
  beforeAll(async () => {
    browser = await startChromium();
    page = await browser.newPage();
  }, 120_000);
  afterAll(() => browser.close());

  it("has the words that Chromium displays, and no others", { timeout: 300_000 }, async () => {
    let [hidden, shown] = [0, 0];
    for (let from = 0; from < PAGES; from += PAGES_AT_ONCE) {
      const pages = Array.from({ length: PAGES_AT_ONCE }, (_, at) => pageOf(SEED + from + at));
      const answers = await displayed(
        page,
        pages.map(({ html }) => html),
      );
      for (const [at, { html, words }] of pages.entries()) {
        const found = visibleText(html).text.match(/w\d+x/g) ?? [];
        expect({ html, words: found.sort() }).toEqual({ html, words: answers[at]?.sort() });
        shown += found.length;
        hidden += words - found.length;
      }
    }
    // Otherwise the test compares nothing.
    expect(Math.min(hidden, shown)).toBeGreaterThan(PAGES);
  });
});
