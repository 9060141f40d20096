/** A PDF of one page of 600 by 800 points that draws this. Its font is F1. */
export interface PdfPage {
  readonly drawn: string;
  /** Further entries of the page, of its resources, and of the document. */
  readonly page?: string;
  readonly resources?: string;
  readonly catalog?: string;
  /** Further objects, from number 6. */
  readonly objects?: readonly string[];
}

export function pdfDrawing({ drawn, page = "", resources = "", catalog = "", objects = [] }: PdfPage): Uint8Array {
  return fileOf([
    `<< /Type /Catalog /Pages 2 0 R ${catalog} >>`,
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R " +
      `/Resources << /Font << /F1 5 0 R >> ${resources} >> ${page} >>`,
    streamOf("", drawn),
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ...objects,
  ]);
}

/** An object with a stream. */
export function streamOf(entries: string, content: string): string {
  return `<< ${entries} /Length ${content.length} >>\nstream\n${content}\nendstream`;
}

function fileOf(objects: readonly string[]): Uint8Array {
  let file = "%PDF-1.4\n";
  const offsets = objects.map((object, at) => {
    const offset = file.length;
    file += `${at + 1} 0 obj\n${object}\nendobj\n`;
    return `${String(offset).padStart(10, "0")} 00000 n \n`;
  });
  const start = file.length;
  const size = objects.length + 1;
  file += `xref\n0 ${size}\n0000000000 65535 f \n${offsets.join("")}trailer << /Size ${size} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF`;
  return new TextEncoder().encode(file);
}

/** A line of text at a place. */
export function textAt(x: number, y: number, text: string, size = 12): string {
  return `BT /F1 ${size} Tf ${x} ${y} Td (${text}) Tj ET`;
}

/** A PDF of one page with these lines, each at its size in points. */
export function pdfOf(lines: readonly { text: string; size: number }[]): Uint8Array {
  return pdfDrawing({ drawn: lines.map(({ text, size }, at) => textAt(50, 700 - 20 * at, text, size)).join("\n") });
}
