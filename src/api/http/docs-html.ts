import { pagePolicy } from "./security-headers.ts";

/** What the pages below /docs have in common: their frame, their style and the escaping of texts. */

const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#e2e2dc, #2b3231); --soft: light-dark(#f0f0ec, #1e2423); --accent: light-dark(#0d5c63, #6cc5c9); color: light-dark(#16201f, #edf1ef); background: light-dark(#fff, #101413); }
body { font: 15px/1.55 system-ui, sans-serif; margin: 0; display: grid; grid-template-columns: 17rem minmax(0, 60rem); gap: 2rem; }
a { color: var(--accent); }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1rem; border-right: 1px solid var(--line); box-sizing: border-box; }
nav a { display: block; font-size: 13px; padding: .1rem 0; color: inherit; text-decoration: none; overflow-wrap: anywhere; }
nav a:hover, nav a:focus, nav a[aria-current] { color: var(--accent); text-decoration: underline; }
nav b { display: block; margin-top: 1rem; }
nav input { width: 100%; box-sizing: border-box; margin-top: 1rem; padding: .4rem; font: inherit; color: inherit; background: var(--soft); border: 1px solid var(--line); border-radius: 4px; }
main { padding: 1rem 1rem 6rem; min-width: 0; }
article { border-top: 1px solid var(--line); padding: .5rem 0 1rem; }
article h3 { font: 600 15px ui-monospace, monospace; overflow-wrap: anywhere; }
article h3 span { color: var(--accent); }
code { background: var(--soft); padding: .1em .3em; border-radius: 4px; overflow-wrap: anywhere; }
pre { background: var(--soft); padding: .75rem; border-radius: 4px; overflow: auto; font-size: 13px; }
pre code { padding: 0; overflow-wrap: normal; }
img { max-width: 100%; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
td, th { text-align: left; border-top: 1px solid var(--line); padding: .25rem .75rem .25rem 0; vertical-align: top; overflow-wrap: anywhere; }
article table { table-layout: fixed; }
article td:first-child { width: 40%; } article td:nth-child(2) { width: 25%; }
details { margin: .3rem 0; } details details, .inner { margin-left: 1rem; } summary { cursor: pointer; }
.answer { margin: .5rem 0 .2rem; }
[hidden] { display: none; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; border: 0; } }
`;

/** Text that is HTML already. */
export interface Html {
  readonly html: string;
}

type Part = string | number | Html | readonly Part[];

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** HTML in which every value is escaped that is not HTML itself. */
export function html(texts: TemplateStringsArray, ...values: Part[]): Html {
  return {
    html: texts.map((text, index) => `${text}${index < values.length ? write(values[index] as Part) : ""}`).join(""),
  };
}

/** Trusted text as HTML. */
export function raw(text: string): Html {
  return { html: text };
}

function write(value: Part): string {
  if (Array.isArray(value)) return value.map(write).join("");
  if (typeof value === "object") return (value as Html).html;
  return String(value).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}

/** A page of /docs with its policy: nothing but its own style and `script` works in it, and it loads only own pictures. */
export function docsPage({ title, nav, main, script }: { title: string; nav: Html; main: Html; script?: string }) {
  const body = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width" />
        <title>${title}</title>
        <style>${raw(STYLE)}</style>
      </head>
      <body>
        ${nav}
        <main>${main}</main>
        ${script === undefined ? "" : html`<script>${raw(script)}</script>`}
      </body>
    </html>`.html;
  return { body, policy: pagePolicy({ style: STYLE, script }) };
}
