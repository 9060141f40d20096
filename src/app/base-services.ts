import { TOOLS } from "../agents/tools/registry.ts";
import { TOOL_ERROR_CODES } from "../agents/tools/tools.types.ts";
import { RUN_ERROR_CODES } from "../api/contract/runs.ts";
import type { Config } from "../config/config.ts";
import { openDb } from "../platform/db/open-db.ts";
import { createSettableClock } from "../platform/db/settable-clock.ts";
import { openStandby } from "../platform/db/standby.ts";
import { createCipher } from "../platform/lib/cipher.ts";
import { createSystemClock } from "../platform/lib/clock.ts";
import { createOutbound } from "../platform/net/outbound.ts";
import type { Log } from "../platform/telemetry/log.ts";
import { createMetrics } from "../platform/telemetry/metrics.ts";
import type { Tracer } from "../platform/telemetry/tracing.ts";
import { createDataKeys } from "../vault/data-keys.service.ts";
import { type LoadedKeyring, withKeyring } from "../vault/keyring.ts";
import { VAULT_FAILURES } from "../vault/vault.types.ts";
import { ERROR_CODES } from "./error-catalogue.ts";

/** Nothing can be saved any more. The supervisor starts a new process, which recovers the database. */
function exitStuck(): void {
  process.exit(1);
}

/** What every module needs: storage, the service's own key, the clock, the guarded HTTP client and metrics. */
export async function openBase(config: Config, log: Log) {
  const metrics = createMetrics({
    http_errors: [...ERROR_CODES, ...RUN_ERROR_CODES],
    run_errors: RUN_ERROR_CODES,
    // A model may name a tool that does not exist.
    tools: [...TOOLS.map(({ contract }) => contract.name), "unknown"],
    tool_errors: TOOL_ERROR_CODES,
    vault_errors: VAULT_FAILURES,
  });
  const tracer = await openTracer(config, log);
  const { database_url, data_dir, db_wait_seconds: wait_seconds } = config;
  const db = await openDb({
    database_url,
    data_dir,
    log,
    wait_seconds,
    onStuck: exitStuck,
    onStatement: metrics.statement,
  });
  metrics.watchDatabase(db.state, db.figures);
  const url = config.read_database_url;
  const standby = url === null ? null : openStandby({ url, db, log });
  const openKeys = async ({ keyring, warning }: LoadedKeyring) => {
    const keys = createDataKeys({ db, keyring, log, onFailure: metrics.vaultFailed });
    await keys.check();
    if (warning !== null) log.warn(warning);
    return { keys, service_key: await keys.ofService() };
  };
  const { keyring } = config;
  const opening = keyring === null ? withKeyring(data_dir, openKeys) : openKeys({ keyring, warning: null });
  const { keys, service_key } = await opening.catch(async (error: Error) => {
    await db.close();
    throw error;
  });
  const settable = config.test_clock === null ? null : await createSettableClock({ db, start: config.test_clock, log });
  const outbound = createOutbound({ allow: config.egress_allow });
  const cipherFor = (purpose: string) => createCipher(service_key, purpose);
  return { metrics, tracer, db, standby, keys, settable, clock: settable ?? createSystemClock(), outbound, cipherFor };
}

/** Loads the span recorder only if traces are sent. */
async function openTracer({ tracing, role }: Config, log: Log): Promise<Tracer | null> {
  if (tracing === null) return null;
  const { createTracer } = await import("../platform/telemetry/otel.ts");
  return createTracer(tracing, { log, role });
}

export type Base = Awaited<ReturnType<typeof openBase>>;
