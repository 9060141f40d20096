/** A shorter text occurs by chance in megabytes of random data. */
const LEAST_CHARACTERS = 8;

/** The encodings in which a search looks for a value. */
export function encodingsOf(value: string): Map<string, string> {
  const bytes = Buffer.from(value);
  // At three alignments. The first and last characters depend on the neighbouring bytes.
  const base64At = (shift: number) =>
    Buffer.concat([Buffer.alloc(shift), bytes])
      .toString("base64")
      .slice(shift === 0 ? 0 : 4, -4);
  const percent = [...bytes].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
  const all: [string, string][] = [
    ["raw", value],
    ["JSON", JSON.stringify(value).slice(1, -1)],
    ["URL", encodeURIComponent(value)],
    ["every byte URL-encoded", percent],
    ["every byte URL-encoded, capital", percent.toUpperCase()],
    ["hex", bytes.toString("hex")],
    ["hex, capital", bytes.toString("hex").toUpperCase()],
    ...[0, 1, 2].flatMap((shift): [string, string][] => [
      [`base64 at ${shift}`, base64At(shift)],
      [`base64url at ${shift}`, base64At(shift).replaceAll("+", "-").replaceAll("/", "_")],
    ]),
  ];
  return new Map(all.filter(([, text]) => text.length >= LEAST_CHARACTERS));
}

/** The encodings of `values` that `bytes` contain. */
export function leaksIn(bytes: Buffer, values: readonly string[]): string[] {
  return values.flatMap((value) =>
    [...encodingsOf(value)].flatMap(([encoding, text]) => (bytes.includes(text) ? [`${value} as ${encoding}`] : [])),
  );
}
