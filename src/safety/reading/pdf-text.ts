import { getDocumentProxy } from "unpdf";

const MAX_PAGES = 300;
const MAX_CHARS = 1_000_000;
/** Text lower than this, in points, is not meant for people. */
const MIN_HEIGHT = 2;

/** The parser prints warnings to the console, which is the log's output. */
const QUIET = { verbosity: 0 } as const;

interface TextItem {
  readonly str: string;
  readonly height: number;
  readonly hasEOL: boolean;
}

/**
 * Returns the text of a PDF, with a blank line between pages, or null when it is not a readable PDF. Cuts long
 * documents and drops tiny text; it cannot detect text in the background's colour or under an image. Run it only in a
 * thread (sanitizer.ts), because the parser has no limits.
 */
export async function pdfText(bytes: Uint8Array): Promise<string | null> {
  try {
    const document = await getDocumentProxy(bytes, QUIET);
    const pages: string[] = [];
    let length = 0;
    for (let number = 1; number <= Math.min(document.numPages, MAX_PAGES) && length < MAX_CHARS; number++) {
      const page = await document.getPage(number);
      const { items } = await page.getTextContent();
      const text = items.map((item) => ("str" in item ? written(item) : "")).join("");
      length += text.length;
      pages.push(text.trim());
    }
    await document.cleanup();
    return pages.join("\n\n").slice(0, MAX_CHARS).toWellFormed();
  } catch {
    return null;
  }
}

function written({ str, height, hasEOL }: TextItem): string {
  const seen = height >= MIN_HEIGHT || str.trim() === "" ? str : "";
  return hasEOL ? `${seen}\n` : seen;
}
