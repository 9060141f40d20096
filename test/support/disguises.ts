/** A form in which a server sends a secret back. */
export type Disguise = readonly [name: string, encode: (text: string) => string];

const bytesOf = (text: string) => [...Buffer.from(text)];
const hexOf = (byte: number) => byte.toString(16).padStart(2, "0");
const shifted = (text: string, shift: number) => Buffer.from(`${"x".repeat(shift)}${text}!`).toString("base64");
/** One encoding each. */
export const PLAIN: Disguise[] = [
  ["raw", (text) => text],
  ["URL", encodeURIComponent],
  ["form", (text) => new URLSearchParams({ q: text }).toString()],
  [
    "every byte as %xx",
    (text) =>
      bytesOf(text)
        .map((byte) => `%${hexOf(byte)}`)
        .join(""),
  ],
  [
    "every byte as %XX",
    (text) =>
      bytesOf(text)
        .map((byte) => `%${hexOf(byte).toUpperCase()}`)
        .join(""),
  ],
  ["JSON", (text) => JSON.stringify(text)],
  ["JSON with \\/", (text) => JSON.stringify(text).replaceAll("/", "\\/")],
  [
    "JSON, all \\u",
    (text) =>
      bytesOf(text)
        .map((byte) => `\\u00${hexOf(byte)}`)
        .join(""),
  ],
  ["HTML", (text) => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("/", "&#x2F;")],
  [
    "HTML, decimal",
    (text) =>
      bytesOf(text)
        .map((byte) => `&#${byte};`)
        .join(""),
  ],
  [
    "HTML, decimal with zeros",
    (text) =>
      bytesOf(text)
        .map((byte) => `&#000${byte};`)
        .join(""),
  ],
  [
    "HTML, hex",
    (text) =>
      bytesOf(text)
        .map((byte) => `&#x${hexOf(byte)};`)
        .join(""),
  ],
  ["hex", (text) => Buffer.from(text).toString("hex")],
  ["HEX", (text) => Buffer.from(text).toString("hex").toUpperCase()],
  ["base64", (text) => shifted(text, 0)],
  ["base64, one on", (text) => shifted(text, 1)],
  ["base64, two on", (text) => shifted(text, 2)],
  ["base64 within other digits", (text) => `abcde/${shifted(text, 0)}`],
  ["base64url", (text) => Buffer.from(text).toString("base64url")],
];
export const WRAPPED: Disguise = [
  "base64 in lines",
  (text) => shifted(`${"y".repeat(50)}${text}`, 0).replaceAll(/(.{64})/g, "$1\r\n"),
];
/** Two encodings, one inside the other. */
const NESTED: Disguise[] = PLAIN.slice(1).flatMap(([outer, encode]) =>
  PLAIN.slice(1).map(([inner, first]): Disguise => [`${inner}, then ${outer}`, (text) => encode(first(text))]),
);
export const ALL = [...PLAIN, WRAPPED, ...NESTED];
