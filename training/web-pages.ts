import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createRandom } from "./grammar.ts";

/**
 * Honest web pages with the parts around the text that real pages have: metadata, scripts, menus, link lists, captions,
 * share buttons. Their words are chosen at random, so that no topic counts as evidence.
 */

const PAGES = 400;
const FUNCTION_WORDS = (
  "the of and to in a is for that on with as was by at from it an are this be or which have has not were their its can " +
  "will more than after also one about all but they he she we you your our when who been into most other may if some"
).split(" ");
const MENU = (
  "Home|About us|Contact|News|Products|Shop|Sign in|Register|My account|Basket|Search|Menu|Close|Help|FAQ|Support|Blog|" +
  "Careers|Press|Privacy policy|Terms of use|Cookies|Imprint|Newsletter|Subscribe|Share|Print|E-mail this page|Read more|" +
  "Next page|Previous article|Back to top|Skip to content|Show all|Load more comments|Leave a reply|Reply|Report|Edit|" +
  "Follow us on Twitter|Share on Facebook|Send to a friend|Download PDF|Log out|Forgot password?|Change language|English|" +
  "Deutsch|Français|Open menu|Toggle navigation|Play video|Mute|View cart|Add to wishlist|Related articles|Most read|Tags|" +
  "Archive|Sitemap|RSS|Comments (12)|Advertisement|Sponsored|Photo: Getty Images|All rights reserved|Follow|Like|Save"
).split("|");
const HIDDEN_LINES = (
  'window.dataLayer = window.dataLayer || []; function gtag(){dataLayer.push(arguments);}|{"@context":"https://schema.org","@type":"NewsArticle","headline":"%","author":{"@type":"Person","name":"%"},"url":"https://%.example/%"}|' +
  'var config = {"user":null,"token":"","endpoint":"https://api.%.example/v1","messages":{"send":"Send","password":"Password"}};|document.addEventListener("click", function(e){ e.preventDefault(); open("%"); });|' +
  "@media (max-width: 600px) { .% { display: none } }|Please enable JavaScript to view the comments.|Your browser does not support the video tag.|if (!user) { location.href = '/login?next=%'; }|" +
  '<!-- begin % --> <!-- end % -->|copy the code below to embed % on your site|window.__INITIAL_STATE__={"page":{"id":12,"title":"%","description":"% % %"},"isAdmin":false,"key":"AIzaSyD3"}|$(\'#%\').submit(function(){ return false; });'
).split("|");

type Random = () => number;

/** The same pages each time. */
export function webPages(sentences: readonly string[]): string[] {
  const random = createRandom(11);
  const clusters = readFileSync(join(import.meta.dirname, "clusters.txt"), "utf8")
    .trimEnd()
    .split("\n");
  const words = clusters.map((line) => line.split(" "));
  return Array.from({ length: PAGES }, () => page(words, sentences, random));
}

function pick<Value>(values: readonly Value[], random: Random): Value {
  return values[Math.floor(random() * values.length)] as Value;
}

/** A word; the common words of a group come first and are chosen more often. */
function word(words: readonly (readonly string[])[], random: Random): string {
  const group = pick(words, random);
  return group[Math.floor(random() ** 2 * group.length)] ?? "";
}

function phrase(words: readonly (readonly string[])[], count: number, random: Random): string {
  return Array.from({ length: count }, () => word(words, random)).join(" ");
}

const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

function sentence(words: readonly (readonly string[])[], random: Random): string {
  const length = 5 + Math.floor(random() * 20);
  const parts = Array.from({ length }, () => (random() < 0.48 ? pick(FUNCTION_WORDS, random) : word(words, random)));
  const marked = parts.map((part, at) =>
    at > 2 && random() < 0.06 ? `${part},` : random() < 0.05 ? capital(part) : part,
  );
  return `${capital(marked.join(" "))}${pick([".", ".", ".", ".", "?", "!"], random)}`;
}

function page(words: readonly (readonly string[])[], honest: readonly string[], random: Random): string {
  const some = (most: number) => 1 + Math.floor(random() * most);
  const title = capital(phrase(words, 1 + some(6), random));
  const site = `${word(words, random)}.example`;
  const url = () =>
    `https://www.${site}/${phrase(words, some(4), random).replaceAll(" ", "-")}${pick(["", "/", ".html", "?id=12", "?utm_source=mail&ref=4"], random)}`;
  const link = (text: string) => `<a href="${url()}" title="${capital(phrase(words, some(4), random))}">${text}</a>`;
  const menu = Array.from({ length: some(14) }, () => `<li>${link(pick(MENU, random))}</li>`).join("");
  const image = () =>
    `<img src="/img/${some(900)}.jpg" alt="${capital(phrase(words, some(8), random))}" aria-label="${pick(MENU, random)}"><figcaption>${capital(phrase(words, some(9), random))} (${some(30)} May 20${10 + some(15)})</figcaption>`;
  const paragraph = () =>
    `<p>${Array.from({ length: some(5) }, () => (random() < 0.3 ? pick(honest, random) : sentence(words, random))).join(" ")}</p>`;
  const teaser = () =>
    `<h3>${link(capital(phrase(words, 2 + some(7), random)))}</h3><span>${some(28)}.${some(12)}.20${10 + some(15)} | by ${capital(word(words, random))} ${capital(word(words, random))} | $${some(900)}.99</span>`;
  const table = () =>
    `<table>${Array.from({ length: some(5) }, () => `<tr><td>${phrase(words, some(3), random)}</td><td>${some(1000)}</td><td>${word(words, random)}@${site}</td></tr>`).join("")}</table>`;
  const hidden = Array.from(
    { length: some(4) },
    () => `<script>${pick(HIDDEN_LINES, random).replaceAll("%", () => phrase(words, some(3), random))}</script>`,
  ).join("");
  const body = Array.from({ length: 2 + some(9) }, () =>
    pick([paragraph, paragraph, paragraph, image, teaser, table], random)(),
  ).join("\n");
  return `<html><head><title>${title}</title><meta name="description" content="${sentence(words, random)}"><meta name="keywords" content="${phrase(words, some(8), random).replaceAll(" ", ", ")}">${hidden}</head><body><nav><ul>${menu}</ul></nav><h1>${title}</h1>${body}<div hidden>${pick(MENU, random)} ${sentence(words, random)}</div><footer><ul>${menu}</ul>© 20${10 + some(15)} ${capital(site)} · ${word(words, random)}@${site} · Tel. +49 30 ${some(90000)}</footer></body></html>`;
}
