import { createHash } from "node:crypto";

/** Headers of every response. A browser executes no part of it, does not frame it and does not guess its type. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> & { "Content-Security-Policy": string } = {
  "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
};

/** contract 1.14: the header of every answer of a drill. The console shows a banner for it. */
const DRILL_HEADER = { "Purser-Mode": "drill" };

/** Headers of every response of this service. With a https address, browsers are told to use no other for a year. */
export function commonHeaders({
  is_https,
  is_drill,
}: {
  is_https: boolean;
  is_drill: boolean;
}): Readonly<Record<string, string>> {
  return {
    ...SECURITY_HEADERS,
    ...(is_https ? { "Strict-Transport-Security": "max-age=31536000" } : {}),
    ...(is_drill ? DRILL_HEADER : {}),
  };
}

/** The policy of a page whose only style is `style` and whose only script is `script`, both written into it. */
export function pagePolicy({ style, script }: { style: string; script?: string | undefined }): string {
  const hash = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const scripts = script === undefined ? "" : ` script-src ${hash(script)};`;
  const own = `; style-src ${hash(style)}; img-src 'self';${scripts}`;
  return SECURITY_HEADERS["Content-Security-Policy"].replace(";", own);
}
