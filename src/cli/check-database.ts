import { readSchemaState, type SchemaState } from "../platform/db/migrate.ts";
import { openDb } from "../platform/db/open-db.ts";
import { NODE_CONNECTIONS, readConnectionLimit, type SqlSource } from "../platform/db/sql-connection.ts";
import { rejectTransfer } from "../platform/db/transfer.ts";
import { createLog } from "../platform/telemetry/log.ts";
import { createDataKeys } from "../vault/data-keys.service.ts";
import type { Keyring } from "../vault/keyring.types.ts";

/** The oldest PostgreSQL that the service supports. */
const LEAST_VERSION = 15;
const CHANNEL = "purser_check";
/** Codes of Node for a certificate that it rejects. */
const CERTIFICATE = /CERT|UNABLE_TO_VERIFY/;
/** The message of node-postgres. */
const NO_TLS = "The server does not support SSL connections";

/** What a check found, one line each. */
export interface Findings {
  readonly problems: string[];
  readonly notes: string[];
}

/** Connects to a PostgreSQL database and reads its version, schema and keys. Changes nothing. */
export async function checkDatabase(database_url: string, keyring: Keyring | null): Promise<Findings> {
  const findings: Findings = { problems: [], notes: [] };
  const log = createLog("silent");
  const found: { schema?: SchemaState } = {};
  const prepare = async (source: SqlSource) => {
    found.schema = await inspect(source, findings);
  };
  try {
    const db = await openDb({ database_url, data_dir: "", log, prepare });
    try {
      if (keyring !== null && found.schema !== undefined && found.schema.applied > 0) {
        await createDataKeys({ db, keyring, log }).check();
      }
      await (await db.listen(CHANNEL, () => {}))();
    } finally {
      await db.close();
    }
  } catch (error) {
    findings.problems.push(explainProblem(error as Error, database_url));
  }
  return findings;
}

async function inspect(source: SqlSource, { problems, notes }: Findings): Promise<SchemaState> {
  const connection = await source.connect();
  try {
    const { rows } = await connection.query<{ version: number; user: string; may_create: boolean }>({
      text: `select current_setting('server_version_num')::integer / 10000 as version, current_user as user,
        has_schema_privilege('public', 'create') as may_create`,
    });
    const { version = 0, user = "", may_create = false } = rows[0] ?? {};
    const most = await readConnectionLimit(connection);
    if (version < LEAST_VERSION) {
      problems.push(
        `DATABASE_URL: the server is PostgreSQL ${version}, and Purser needs ${LEAST_VERSION} or newer: upgrade it, or name another server`,
      );
    }
    if (most < NODE_CONNECTIONS) {
      problems.push(
        `DATABASE_URL: ${user} may have ${most} connections, and a node needs ${NODE_CONNECTIONS}: raise the limit of the user or the database, or max_connections, of which the server reserves some`,
      );
    }
    const state = await readSchemaState(connection);
    await rejectTransfer((statement) => connection.query<never>(statement).then(({ rows }) => rows)).catch(
      (error: Error) => problems.push(`DATABASE_URL: ${error.message}`),
    );
    if (state.missing.length > 0 && !may_create) {
      problems.push(
        `DATABASE_URL: the user ${user} may not create tables: run as the owner of the database: grant create on schema public to ${user}`,
      );
    }
    notes.push(`PostgreSQL ${version}: ${schemaNote({ ...state, missing: state.missing.length })}`);
    return state;
  } finally {
    connection.release();
  }
}

/** What a start would do with a schema. */
export function schemaNote(state: { applied: number; missing: number }): string {
  if (state.applied === 0) return "the database is empty; the first start creates its tables";
  if (state.missing > 0) return `the start will apply ${state.missing} migrations: back up first`;
  return "the database has the schema of this version";
}

/** One line that names the setting, the fault and its solution. */
function explainProblem(error: Error, database_url: string): string {
  if (error.message.startsWith("PURSER_KEK") || error.name === "NotificationsLostError") return error.message;
  const { code, message } = innermost(error);
  if (message.startsWith("the database has the migration")) return `DATABASE_URL: ${message}`;
  const { host, user, name } = getParts(database_url);
  if (CERTIFICATE.test(code)) {
    return `DATABASE_URL: the certificate of ${host} is not trusted: ${message.replace(/;.*/, "")}. Add sslrootcert=/path/of/its/ca.pem to the URL, and use the name of the certificate`;
  }
  if (message === NO_TLS) return `DATABASE_URL: ${host} has no TLS: enable it there, or remove sslmode from the URL`;
  const problem: Readonly<Record<string, string>> = {
    ENOTFOUND: `the host of ${host} is unknown: correct its name`,
    EAI_AGAIN: `the host of ${host} is unknown: correct its name, or repair the name server`,
    ECONNREFUSED: `nothing listens at ${host}: start PostgreSQL there, or correct host and port`,
    EHOSTUNREACH: `${host} cannot be reached: check the network and the firewall`,
    ETIMEDOUT: `${host} does not answer: check the network and the firewall`,
    "28P01": `the server rejects the password of the user ${user}: correct it. Characters such as @, / and # in a password must be percent-encoded (@ is %40)`,
    "28000": `the server does not let the user ${user} in: ${message}. Correct the user, or add a line for it to pg_hba.conf`,
    "3D000": `the database ${name} does not exist: create it (createdb ${name}), or correct the name`,
  };
  return `DATABASE_URL: ${problem[code] ?? `${message}. Check that the server at ${host} is up and the database is the right one`}`;
}

/** The first error of a server or the system behind an error: the cause, or the first of several addresses. */
function innermost(error: Error): { code: string; message: string } {
  let found: Error & { code?: string; errors?: Error[] } = error;
  for (;;) {
    const inner = found.errors?.[0] ?? (found.cause instanceof Error ? found.cause : undefined);
    if (inner === undefined) break;
    found = inner;
  }
  return { code: found.code ?? "", message: found.message };
}

/** For messages. It never returns the password. */
function getParts(database_url: string): { host: string; user: string; name: string } {
  const [, authority = "", name = ""] = /^\w+:\/\/([^/?]*)\/?([^?]*)/.exec(database_url) ?? [];
  const at = authority.lastIndexOf("@");
  const [user = ""] = authority.slice(0, Math.max(at, 0)).split(":");
  return { host: authority.slice(at + 1) || "localhost", user: user || "of this process", name: name || user };
}
