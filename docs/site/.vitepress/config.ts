import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { defineConfig } from "vitepress";

// `npm run docs:build`: the site of the files in `docs`, with a path for each kind of reader.

const SOURCE = join(import.meta.dirname, "../..");
/** A copy, because the compiled pages look for their packages in the folders above them. */
const DOCS = join(import.meta.dirname, "../pages");
rmSync(DOCS, { recursive: true, force: true });
for (const part of ["guides", "operating", "reference", "decisions", "pictures", "contract.md"]) {
  cpSync(join(SOURCE, part), join(DOCS, part), { recursive: true });
}
cpSync(join(import.meta.dirname, "../index.md"), join(DOCS, "index.md"));

const titleOf = (file: string) => /^# (.+)$/m.exec(readFileSync(join(DOCS, file), "utf8"))?.[1] ?? file;
const entry = (file: string) => ({ text: titleOf(file), link: `/${file.replace(/README\.md$|\.md$/, "")}` });
const guides = (...names: string[]) => names.map((name) => entry(`guides/${name}.md`));
const filesOf = (folder: string) =>
  readdirSync(join(DOCS, folder))
    .filter((file) => file.endsWith(".md"))
    .toSorted((a, b) => Number(b === "README.md") - Number(a === "README.md") || (a < b ? -1 : 1))
    .map((file) => `${folder}/${file}`);

const PATHS = [
  {
    text: "You call the API",
    items: guides("developers", "recipes", "triage-by-webhook", "clients", "conversations", "translations"),
  },
  { text: "You own agents", items: guides("people", "approvals", "console-tasks", "tools", "safety") },
  {
    text: "You run the service",
    items: [...filesOf("operating").map(entry), ...guides("models", "routing", "reselling", "threat-model")],
  },
];
const inPaths = new Set(PATHS.flatMap(({ items }) => items.map(({ link }) => link)));
/** A guide without a place of its own. */
const others = filesOf("guides")
  .map(entry)
  .filter(({ link }) => !inPaths.has(link));

export default defineConfig({
  title: "Purser",
  description: "Self-hosted AI agents with a secret vault and an exact token account",
  srcDir: "pages",
  rewrites: { "operating/README.md": "operating/index.md" },
  cleanUrls: true,
  themeConfig: {
    search: { provider: "local" },
    nav: [
      { text: "Reference", link: "/reference/api" },
      { text: "Contract", link: "/contract" },
    ],
    sidebar: [
      ...PATHS,
      ...(others.length > 0 ? [{ text: "More", items: others }] : []),
      { text: "Reasons", collapsed: true, items: filesOf("decisions").map(entry) },
    ],
  },
  markdown: {
    // Names such as <PAGE_URL> are text.
    html: false,
    // Braces in headings are names in a path.
    attrs: { disable: true },
    config(md) {
      // Two braces are text too, and no expression of Vue.
      const written = (content = "") => md.utils.escapeHtml(content).replaceAll("{{", "&#123;&#123;");
      md.renderer.rules.text = (tokens, at) => written(tokens[at]?.content);
      md.renderer.rules.code_inline = (tokens, at) => `<code>${written(tokens[at]?.content)}</code>`;
      // A link to a file that only the repository has is no link here.
      md.core.ruler.push("inside", ({ tokens, env }) => {
        for (const { children } of tokens) {
          let is_dropped = false;
          for (const token of children ?? []) {
            if (token.type === "link_open") is_dropped = !isInside(env.path, token.attrGet("href") ?? "");
            if (is_dropped && token.type.startsWith("link_")) token.tag = "span";
            if (is_dropped && token.type === "link_open") token.attrs = [];
          }
        }
      });
    },
  },
});

function isInside(page: string, href: string): boolean {
  if (/^(?:[a-z]+:|#|\/)/.test(href)) return true;
  const file = join(dirname(page), decodeURI(href).split("#")[0] ?? "");
  const within = relative(DOCS, file);
  return existsSync(file) && file.endsWith(".md") && !within.startsWith("..");
}
