import { type Endpoint, type Field, type OpenApiDocument, referenceOf } from "./reference.ts";
import { styledPagePolicy } from "./security-headers.ts";

const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#e2e2dc, #2b3231); --soft: light-dark(#f0f0ec, #1e2423); --accent: light-dark(#0d5c63, #6cc5c9); color: light-dark(#16201f, #edf1ef); background: light-dark(#fff, #101413); }
body { font: 15px/1.55 system-ui, sans-serif; margin: 0; display: grid; grid-template-columns: 17rem minmax(0, 60rem); gap: 2rem; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1rem; border-right: 1px solid var(--line); box-sizing: border-box; }
nav a { display: block; font-size: 13px; padding: .1rem 0; color: inherit; text-decoration: none; overflow-wrap: anywhere; }
nav a:hover, nav a:focus { color: var(--accent); text-decoration: underline; }
nav b { display: block; margin-top: 1rem; }
main { padding: 1rem 1rem 6rem; }
article { border-top: 1px solid var(--line); padding: .5rem 0 1rem; }
h3 { font: 600 15px ui-monospace, monospace; overflow-wrap: anywhere; }
h3 span { color: var(--accent); }
code { background: var(--soft); padding: .1em .3em; border-radius: 4px; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
td, th { text-align: left; border-top: 1px solid var(--line); padding: .25rem .75rem .25rem 0; vertical-align: top; }
table { table-layout: fixed; }
td:first-child { width: 40%; overflow-wrap: anywhere; } td:nth-child(2) { width: 25%; overflow-wrap: anywhere; }
.answer { margin: .5rem 0 .2rem; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; border: 0; } }
`;

/** Allows only the page's style. */
export const REFERENCE_PAGE_POLICY = styledPagePolicy(STYLE);

/** The reference as one page without scripts. It loads nothing from other sites. */
export function referencePage(document: OpenApiDocument): string {
  const sections = referenceOf(document);
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width" />
        <title>${document.info.title} API reference</title>
        <style>${raw(STYLE)}</style>
      </head>
      <body>
        <nav aria-label="Endpoints">
          <strong>${document.info.title} ${document.info.version}</strong>
          <a href="/openapi.json">openapi.json</a>
          <a href="/docs/config.schema.json">Schema of the configuration file</a>
          <a href="/">Console</a>
          ${sections.map((section) => html`<b>${section.title}</b>${section.endpoints.map((endpoint) => html`<a href="#${anchor(endpoint)}">${endpoint.method} ${endpoint.path.replace("/api/v1", "")}</a>`)}`)}
        </nav>
        <main>
          <h1>${document.info.title} API reference</h1>
          <p>${prose(document.info.description ?? "")}</p>
          ${sections.map((section) => html`<h2>${section.title}</h2>${section.endpoints.map(article)}`)}
        </main>
      </body>
    </html>`.html;
}

/** Formats text between backticks as code. */
const prose = (text: string) =>
  text.split("`").map((part, place) => (place % 2 === 1 ? html`<code>${part}</code>` : part));

function anchor(endpoint: Endpoint): string {
  return `${endpoint.method}-${endpoint.path}`.toLowerCase().replace(/[^a-z0-9]+/g, "-");
}

function article(endpoint: Endpoint) {
  return html`<article id="${anchor(endpoint)}">
    <h3><span>${endpoint.method}</span> ${endpoint.path}</h3>
    <p>${prose(endpoint.summary)}${endpoint.scope === null ? "" : html`. Scope <code>${endpoint.scope}</code>`}</p>
    ${table("Parameters", endpoint.parameters)} ${table("Body", endpoint.request)}
    ${endpoint.responses.map(
      (response) => html`<p class="answer"><code>${response.status}</code> ${prose(response.description)}</p>
        ${table("", response.fields)}`,
    )}
  </article>`;
}

function table(title: string, fields: Field[]) {
  if (fields.length === 0) return "";
  return html`${title === "" ? "" : html`<h4>${title}</h4>`}
    <table>
      ${fields.map((field) => html`<tr><td><code>${field.name}</code>${field.required ? "" : " (optional)"}</td><td>${field.type}</td><td>${prose(field.note)}</td></tr>`)}
    </table>`;
}

/** Text that is HTML already. */
interface Html {
  readonly html: string;
}

type Part = string | number | Html | readonly Part[];

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** HTML in which every value is escaped that is not HTML itself. */
function html(texts: TemplateStringsArray, ...values: Part[]): Html {
  return {
    html: texts.map((text, index) => `${text}${index < values.length ? write(values[index] as Part) : ""}`).join(""),
  };
}

/** Trusted text as HTML. */
function raw(text: string): Html {
  return { html: text };
}

function write(value: Part): string {
  if (Array.isArray(value)) return value.map(write).join("");
  if (typeof value === "object") return (value as Html).html;
  return String(value).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}
