const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** The address that people reach the service by. */
export interface PublicAddress {
  /** An origin: no slash at its end. */
  url(): string;
  /** Whether that is https, so that cookies can be kept to it. */
  readonly secure: boolean;
  /** Whether `origin`, as a browser writes it, is that of the service's own pages. */
  isOurs(origin: string): boolean;
  /** Tells the port that was really taken: it stands in the address when PURSER_PUBLIC_URL does not say another. */
  listeningAt(url: string): void;
}

/** PURSER_PUBLIC_URL, or where the service listens. On loopback that has three names, all of them its own. */
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
