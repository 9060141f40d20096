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
