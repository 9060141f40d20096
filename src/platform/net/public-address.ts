const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** The address at which people reach the service. */
export interface PublicAddress {
  /** An origin, without a trailing slash. */
  url(): string;
  /** Whether the address is https, so that cookies can be restricted to https. */
  readonly secure: boolean;
  /** Whether `origin`, as a browser writes it, is the origin of the service's own pages. */
  isOurs(origin: string): boolean;
  /** Sets the address with the port that the service really listens on. Has no effect if PURSER_PUBLIC_URL is set. */
  listeningAt(url: string): void;
}

/**
 * PURSER_PUBLIC_URL, or otherwise the address where the service listens. On loopback, all three names of that address
 * are the service's own.
 */
export function createPublicAddress(options: { public_url: string | null; host: string; port: number }): PublicAddress {
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;
  let origin = options.public_url ?? new URL(`http://${host}:${options.port}`).origin;
  return {
    url: () => origin,
    secure: origin.startsWith("https:"),
    isOurs(other) {
      if (other === origin) return true;
      if (options.public_url !== null) return false;
      const [ours, theirs] = [new URL(origin), URL.parse(other)];
      if (theirs === null || theirs.origin !== other || theirs.protocol !== ours.protocol) return false;
      return theirs.port === ours.port && LOOPBACK.has(ours.hostname) && LOOPBACK.has(theirs.hostname);
    },
    listeningAt(url) {
      if (options.public_url === null) origin = new URL(url).origin;
    },
  };
}
