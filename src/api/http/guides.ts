import { readdirSync, readFileSync } from "node:fs";
import { extname, join, posix } from "node:path";
import { micromark } from "micromark";
import { gfm, gfmHtml } from "micromark-extension-gfm";
import { docsPage, type Html, html, raw } from "./docs-html.ts";

/** The guides of the `docs` folder as pages: /docs/guides/developers is docs/guides/developers.md. */

const DOCS = join(import.meta.dirname, "../../../docs");
const SECTIONS = { guides: "Guides", operating: "Operating" } as const;
const CONTRACT = "contract.md";
const PICTURES: Readonly<Record<string, string>> = { ".svg": "image/svg+xml", ".webp": "image/webp" };
/** Generated, and shown in another form. */
const REFERENCE = "/reference/api.md";

interface Guide {
  /** Below `docs`: `guides/developers.md`. */
  file: string;
  address: string;
  title: string;
}

export interface Page {
  type: string;
  body: string | Uint8Array;
  policy?: string;
}

/** Finds the page or the picture at an address below /docs; null: there is none. Pages are made when first asked for. */
export function createGuides(): (address: string) => Page | null {
  const guides = listGuides();
  const pictures = new Map(
    ["guides", "operating", "pictures"].flatMap((folder) =>
      readdirSync(join(DOCS, folder))
        .filter((file) => extname(file) in PICTURES)
        .map((file): [string, string] => [`/docs/${folder}/${file}`, join(DOCS, folder, file)]),
    ),
  );
  const made = new Map<string, Page>();
  const makePage = (address: string): Page | null => {
    const guide = guides.find((each) => each.address === address);
    if (address === "/docs/guides") return pageOf("Guides", address, guides, contents(guides));
    return guide === undefined ? null : pageOf(guide.title, address, guides, raw(toHtml(guide, guides)));
  };
  return (address) => {
    const picture = pictures.get(address);
    if (picture !== undefined) return { type: PICTURES[extname(address)] ?? "", body: readFileSync(picture) };
    const page = made.get(address) ?? makePage(address);
    if (page !== null) made.set(address, page);
    return page;
  };
}

function listGuides(): Guide[] {
  const files = Object.keys(SECTIONS).flatMap((folder) =>
    readdirSync(join(DOCS, folder))
      .filter((file) => file.endsWith(".md"))
      // A folder begins with its README.
      .toSorted((a, b) => Number(b === "README.md") - Number(a === "README.md") || (a < b ? -1 : 1))
      .map((file) => `${folder}/${file}`),
  );
  return [...files, CONTRACT].map((file) => {
    const [, title = file] = /^# (.+)$/m.exec(readFileSync(join(DOCS, file), "utf8")) ?? [];
    return { file, address: `/docs/${file.replace(/(?:\/README)?\.md$/, "")}`, title };
  });
}

function pageOf(title: string, address: string, guides: readonly Guide[], main: Html): Page {
  const link = (guide: Guide) =>
    html`<a href="${guide.address}"${guide.address === address ? raw(' aria-current="page"') : ""}>${guide.title}</a>`;
  const section = ([folder, name]: [string, string]) =>
    html`<b>${name}</b>${guides.filter(({ file }) => file.startsWith(`${folder}/`)).map(link)}`;
  const nav = html`<nav aria-label="Guides">
    <strong>Purser</strong>
    <a href="/docs">API reference</a>
    <a href="/">Console</a>
    ${Object.entries(SECTIONS).map(section)}
    <b>Contract</b>${guides.filter(({ file }) => file === CONTRACT).map(link)}
  </nav>`;
  const { body, policy } = docsPage({ title: `${title} · Purser`, nav, main });
  return { type: "text/html; charset=UTF-8", body, policy };
}

function contents(guides: readonly Guide[]): Html {
  return html`<h1>Guides</h1><ul>${guides.map(({ address, title }) => html`<li><a href="${address}">${title}</a></li>`)}</ul>`;
}

/** HTML of a guide's text is escaped, so only Markdown forms it. */
function toHtml({ file }: Guide, guides: readonly Guide[]): string {
  const text = readFileSync(join(DOCS, file), "utf8");
  const rendered = micromark(text, { extensions: [gfm()], htmlExtensions: [gfmHtml()] });
  const at = (address: string) => posix.join("/", posix.dirname(file), address);
  return rendered
    .replaceAll(/<h([1-6])>(.*?)<\/h\1>/g, (_, level, inner) => `<h${level} id="${slug(inner)}">${inner}</h${level}>`)
    .replaceAll(/<img src="([^"]+)"/g, (_, address) => `<img src="/docs${at(address)}"`)
    .replaceAll(/<a href="([^"]*)">(.*?)<\/a>/gs, (whole, address: string, inner: string) => {
      if (/^(?:[a-z]+:|#)/.test(address)) return whole;
      const [path = "", fragment] = address.split("#");
      const target = at(path);
      const found = guides.find((guide) => `/${guide.file}` === target)?.address;
      const page = found ?? (target === REFERENCE ? "/docs" : null);
      // What only the repository has is no link here.
      if (page === null) return inner;
      return `<a href="${page}${fragment === undefined || found === undefined ? "" : `#${fragment}`}">${inner}</a>`;
    });
}

/** The anchor of a heading, as GitHub makes it. */
function slug(heading: string): string {
  const text = heading.replaceAll(/<[^>]+>|&[a-z]+;/g, "").toLowerCase();
  return text.replaceAll(/[^\p{L}\p{N}\p{M}_\- ]/gu, "").replaceAll(" ", "-");
}
