import { accessSync, constants } from "node:fs";
import pg from "pg";

/** The scheme, the credentials with their @, the hosts and the rest of a PostgreSQL URL. */
const PARTS = /^(postgres(?:ql)?:\/\/)((?:[^@/?]*@)?)([^/?@]*)(.*)$/s;
const SESSION = "target_session_attrs";
const WRITABLE = ["read-write", "primary"];
/** All of these but the first two check the server's certificate. node-postgres warns about the names in the middle. */
const SSL_MODES = ["disable", "no-verify", "prefer", "require", "verify-ca", "verify-full"];
const SSL_FILES = ["sslrootcert", "sslcert", "sslkey"];

/** One URL for each host of DATABASE_URL, and whether the server must accept writes. */
export interface DatabaseUrls {
  urls: readonly [string, ...string[]];
  must_write: boolean;
}

/**
 * Splits `postgres://user@one:5432,two:5432/db?target_session_attrs=read-write` into its hosts, as libpq does. Throws
 * an Error that says what is wrong. It never repeats the text, which may hold a password.
 */
export function databaseUrls(text: string): DatabaseUrls {
  const [, scheme = "", credentials = "", hosts = "", rest = ""] = PARTS.exec(text) ?? [];
  // libpq's form of a socket has no host: postgres://user:password@/db?host=/var/run/postgresql
  const named = hosts === "" && credentials !== "" ? "localhost" : hosts;
  const urls = named.split(",").map((host) => URL.parse(`${scheme}${credentials}${host}${rest}`));
  const [first] = urls;
  if (scheme === "" || first === undefined || urls.includes(null)) throw new Error("it is not a URL");
  const found = urls.filter((url) => url !== null);
  if (found.length > 1 && found.some(({ hostname }) => hostname === "")) throw new Error("one of its hosts is empty");
  const attributes = found[0]?.searchParams.get(SESSION) ?? null;
  if (attributes !== null && !WRITABLE.includes(attributes)) {
    throw new Error(`its ${SESSION} is not ${WRITABLE.join(" or ")}, and the service must write`);
  }
  const plain = found.map((url) => {
    if (attributes !== null) url.searchParams.delete(SESSION);
    checkTls(url.searchParams);
    return url.href;
  });
  return { urls: plain as [string, ...string[]], must_write: found.length > 1 || attributes !== null };
}

/** Throws for a mode or a file that cannot be used. Renames modes that node-postgres treats as `verify-full`. */
function checkTls(params: URLSearchParams): void {
  for (const name of SSL_FILES) {
    const path = params.get(name);
    if (path === null) continue;
    try {
      accessSync(path, constants.R_OK);
    } catch (error) {
      throw new Error(`the file of its ${name} cannot be read (${(error as NodeJS.ErrnoException).code})`);
    }
  }
  const mode = params.get("sslmode");
  if (mode === null || params.has("uselibpqcompat")) return;
  if (!SSL_MODES.includes(mode)) throw new Error(`its sslmode is not one of ${SSL_MODES.join(", ")}`);
  if (SSL_MODES.indexOf(mode) > 1) params.set("sslmode", "verify-full");
}

/** The server accepts connections and rejects writes: a standby, or a primary that was replaced. */
export class ReadOnlyServerError extends Error {
  readonly code = "25006";
}

/** The hosts of one database. A connection goes to the host that worked last, and to the next one after a failure. */
export interface DatabaseHosts {
  count: number;
  /** Creates a client for the present host. It fails to connect if its server must accept writes and does not. */
  createClient(settings: pg.ClientConfig): pg.Client;
  /** Whether `error` is a failed connection, so that another host may be tried. */
  isConnectFailure(error: unknown): boolean;
  /** Continues with the next host, after the present one rejected a write. */
  leave(): void;
}

/** Remembers which host works. Throws as `databaseUrls` does. */
export function createDatabaseHosts(text: string): DatabaseHosts {
  const { urls, must_write } = databaseUrls(text);
  const failures = new WeakSet<object>();
  let present = 0;

  const checkWritable = async (client: pg.Client) => {
    const { rows } = await client.query("show transaction_read_only");
    if (rows[0]?.transaction_read_only === "off") return;
    await client.end();
    throw new ReadOnlyServerError("the server rejects writes");
  };
  const createClient = (settings: pg.ClientConfig) => {
    const nth = present;
    const client = new pg.Client({ ...settings, connectionString: urls[nth] as string });
    const connect = () => Reflect.apply(pg.Client.prototype.connect, client, []) as Promise<unknown>;
    const connectChecked = async () => {
      try {
        await connect();
        if (must_write) await checkWritable(client);
      } catch (error) {
        failures.add(error as Error);
        if (nth === present) present = (present + 1) % urls.length;
        throw error;
      }
    };
    // The pool passes a callback.
    const either = (done?: (error?: Error) => void) =>
      done === undefined ? connectChecked() : void connectChecked().then(() => done(), done);
    return Object.assign(client, { connect: either }) as pg.Client;
  };
  return {
    count: urls.length,
    createClient,
    isConnectFailure: (error) => failures.has(error as object),
    leave() {
      present = (present + 1) % urls.length;
    },
  };
}
