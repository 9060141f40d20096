import { docsPage, html } from "./docs-html.ts";
import { type Endpoint, type Field, type OpenApiDocument, referenceOf, type Shape, type Variant } from "./reference.ts";

/** Shows only the endpoints with all words of the search. Without scripts, the page has no search and works as before. */
const SEARCH = `
const field = document.querySelector("nav input");
const endpoints = [...document.querySelectorAll("article")].map((article) => ({
  article,
  link: document.querySelector('nav a[href="#' + article.id + '"]'),
  text: article.textContent.toLowerCase(),
}));
field.hidden = false;
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
  for (const { article, link, text } of endpoints) {
    const is_found = words.every((word) => text.includes(word));
    article.hidden = !is_found;
    link.hidden = !is_found;
  }
  for (const section of document.querySelectorAll("main section")) {
    section.hidden = section.querySelector("article:not([hidden])") === null;
  }
});
`;

/** The reference as one page. It loads nothing. */
export function referencePage(document: OpenApiDocument) {
  const sections = referenceOf(document);
  const { title, version, description = "" } = document.info;
  const nav = html`<nav aria-label="Endpoints">
    <strong>${title} ${version}</strong>
    <a href="/docs/guides">Guides</a>
    <a href="/openapi.json">openapi.json</a>
    <a href="/docs/config.schema.json">Schema of the configuration file</a>
    <a href="/">Console</a>
    <input type="search" placeholder="Search" aria-label="Search endpoints and fields" hidden />
    ${sections.map((section) => html`<b>${section.title}</b>${section.endpoints.map((endpoint) => html`<a href="#${anchor(endpoint)}">${endpoint.method} ${endpoint.path.replace("/api/v1", "")}</a>`)}`)}
  </nav>`;
  const main = html`<h1>${title} API reference</h1>
    <p>${prose(description)}</p>
    ${sections.map((section) => html`<section><h2>${section.title}</h2><p>${prose(section.description)}</p>${section.endpoints.map(article)}</section>`)}`;
  return docsPage({ title: `${title} API reference`, nav, main, script: SEARCH });
}

/** Formats text between backticks as code. */
const prose = (text: string) =>
  text.split("`").map((part, place) => (place % 2 === 1 ? html`<code>${part}</code>` : part));

function anchor(endpoint: Endpoint): string {
  return `${endpoint.method}-${endpoint.path}`.toLowerCase().replace(/[^a-z0-9]+/g, "-");
}

function article(endpoint: Endpoint) {
  const { method, path, summary, scope, parameters, request, responses } = endpoint;
  const answered = responses.find(({ example }) => example !== undefined);
  return html`<article id="${anchor(endpoint)}">
    <h3><span>${method}</span> ${path}</h3>
    <p>${prose(summary)}${scope === null ? "" : html`. Scope <code>${scope}</code>`}</p>
    ${table("Parameters", parameters)} ${shape("Body", request)} ${example(endpoint)}
    ${responses.map(
      (response) => html`<p class="answer"><code>${response.status}</code> ${prose(response.description)}</p>
        ${shape("", response)}`,
    )}
    ${answered === undefined ? "" : html`<details><summary>Example answer</summary>${json(answered.example)}</details>`}
  </article>`;
}

/** The request as a command. Of a webhook, the body that arrives. */
function example({ method, path, request, scope }: Endpoint) {
  if (method === "WEBHOOK") return html`<h4>Example</h4>${json(request.example)}`;
  const key = path.startsWith("/api/v1/admin/") ? "PURSER_ADMIN_KEY" : "KEY";
  const needs_key = scope !== null || !path.startsWith("/api/v1/auth/");
  const lines = [
    `curl ${method === "GET" || method === "POST" ? "" : `-X ${method} `}"$PURSER${path}"`,
    ...(needs_key ? [`  -H "Authorization: Bearer $${key}"`] : []),
  ];
  if (request.example !== undefined) {
    const body = JSON.stringify(request.example, null, 2).replaceAll("'", "'\\''");
    lines.push('  -H "Content-Type: application/json"', `  -d '${body}'`);
  } else if (method === "POST") lines[0] = lines[0]?.replace("curl ", "curl -X POST ") ?? "";
  return html`<h4>Example</h4><pre><code>${lines.join(" \\\n")}</code></pre>`;
}

const json = (value: unknown) => html`<pre><code>${JSON.stringify(value, null, 2)}</code></pre>`;

function shape(title: string, { fields, variants }: Shape) {
  return html`${table(title, fields)}${variants.length > 0 && title !== "" ? html`<h4>${title}</h4>` : ""}${variants.map(shown)}`;
}

/** One of several shapes, folded. */
function shown({ label, fields }: Variant): ReturnType<typeof html> {
  return html`<details><summary><code>${label}</code></summary>${table("", fields)}</details>`;
}

function table(title: string, fields: Field[]): ReturnType<typeof html> | "" {
  if (fields.length === 0) return "";
  return html`${title === "" ? "" : html`<h4>${title}</h4>`}
    <table>
      ${fields.map((field) => html`<tr><td><code>${field.name}</code>${field.required ? "" : " (optional)"}</td><td>${field.type}</td><td>${prose(field.note)}</td></tr>${field.variants.length < 2 ? "" : html`<tr><td colspan="3" class="inner">${field.variants.map(shown)}</td></tr>`}`)}
    </table>`;
}
