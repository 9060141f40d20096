import { createHash } from "node:crypto";

/** Headers of every response. A browser executes no part of it, does not frame it and does not guess its type. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> & { "Content-Security-Policy": string } = {
  "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
};

/** With a https address, browsers are told to use no other for a year. Other names of the domain are not included. */
export function securityHeaders({ is_https }: { is_https: boolean }): Readonly<Record<string, string>> {
  return is_https ? { ...SECURITY_HEADERS, "Strict-Transport-Security": "max-age=31536000" } : SECURITY_HEADERS;
}

/** The policy of a page without scripts whose only style is `style`, written into it. */
export function styledPagePolicy(style: string): string {
  const hash = createHash("sha256").update(style).digest("base64");
  return SECURITY_HEADERS["Content-Security-Policy"].replace(";", `; style-src 'sha256-${hash}';`);
}
