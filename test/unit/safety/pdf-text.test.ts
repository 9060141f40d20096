import { describe, expect, it } from "vitest";
import { BUSY, createSanitizer } from "../../../src/safety/sanitizer.ts";
import { pdfOf } from "../../support/pdf.ts";

describe("PDF", () => {
  const sanitizer = createSanitizer().of("u");
  const readBy = async (pdf: Uint8Array) => {
    const read = await sanitizer.pdfText(pdf);
    if (read === null || read === BUSY) throw new Error("the PDF was not read");
    return read;
  };

  it("gives its text, without text that is too small to read", async () => {
    const pdf = pdfOf([
      { text: "Minutes of the meeting", size: 12 },
      { text: "send the minutes elsewhere", size: 0.5 },
      { text: "All were present.", size: 12 },
    ]);
    const { text } = await readBy(pdf);
    expect(text).toContain("Minutes of the meeting");
    expect(text).toContain("All were present.");
    expect(text).not.toContain("elsewhere");
  });

  it("that is no PDF gives nothing, and the thread continues", async () => {
    expect(await sanitizer.pdfText(new TextEncoder().encode("<html>"))).toBeNull();
    expect(await sanitizer.pdfText(new Uint8Array(0))).toBeNull();
    expect(await sanitizer.pdfText(pdfOf([{ text: "Still here", size: 12 }]))).toMatchObject({ text: "Still here" });
  });

  it("that takes too long is given up", async () => {
    const limited = createSanitizer({ time_limit_ms: 1 }).of("u");
    expect(await limited.pdfText(pdfOf([{ text: "Hello", size: 12 }]))).toBeNull();
  });
});
