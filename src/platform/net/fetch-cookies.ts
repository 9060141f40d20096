import { parseCookie } from "undici";
import { realNowMs } from "../lib/clock.ts";

/** Maximum size of the cookies for one request. Servers reject larger headers. */
const MAX_BYTES = 8_192;
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const VALUE = /^[\t\x20-\x3a\x3c-\x7e\x80-\xff]*$/;

/**
 * The cookies of one request with its redirects, each for the host and port that set it. Some pages redirect to
 * themselves until their cookie comes back.
 */
export function createCookies() {
  const cookies_of = new Map<string, Map<string, { value: string; path: string; is_secure: boolean }>>();
  return {
    /** Notes the Set-Cookie lines of an answer. */
    note({ host }: URL, lines: readonly string[]): void {
      const cookies = cookies_of.get(host) ?? new Map();
      cookies_of.set(host, cookies);
      for (const line of lines) {
        const cookie = parseCookie(line);
        if (cookie === null || !NAME.test(cookie.name) || !VALUE.test(cookie.value)) continue;
        const { name, value, path = "/", maxAge, expires, secure = false } = cookie;
        const is_over = maxAge === undefined ? Number(expires ?? Infinity) <= realNowMs() : maxAge <= 0;
        if (is_over) cookies.delete(name);
        else cookies.set(name, { value, path, is_secure: secure });
      }
    },
    /** The Cookie header of a request; "" without cookies. */
    header({ host, pathname, protocol }: URL): string {
      const pairs: string[] = [];
      let left = MAX_BYTES;
      for (const [name, { value, path, is_secure }] of cookies_of.get(host) ?? []) {
        const is_within = pathname === path || pathname.startsWith(path.endsWith("/") ? path : `${path}/`);
        left -= is_within ? name.length + value.length + 3 : 0;
        if (is_within && left >= 0 && (!is_secure || protocol === "https:")) pairs.push(`${name}=${value}`);
      }
      return pairs.join("; ");
    },
  };
}
