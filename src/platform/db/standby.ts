import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "../lib/clock.ts";
import type { Log } from "../telemetry/log.ts";
import type { Reader, Statement } from "./db.ts";
import { openReader } from "./postgres.adapter.ts";

/** How long a read waits for the standby to replay the commits before it, and how often it looks. */
const CATCH_UP_MS = 5_000;
const LOOK_MS = 50;
const VARIABLE = "PURSER_READ_DATABASE_URL";

/** The standby cannot be used for reads now. The message says why. */
export class StandbyError extends Error {}

/** A streaming standby of the database, for long reads (contract 1.13). */
export interface Standby extends Reader {
  /**
   * Waits until the standby has all earlier commits of the database. Throws a StandbyError when it does not answer, is
   * no standby of this database, or stays behind.
   */
  catchUp(): Promise<void>;
  close(): Promise<void>;
}

/** The database as one of its servers describes it. */
interface Identity {
  system: string;
  name: string;
}

interface StandbyState extends Identity {
  is_standby: boolean;
  behind_bytes: number;
  behind_s: number | null;
}

const IDENTITY =
  "(select system_identifier::text from pg_control_system()) as system, current_database()::text as name";

/** Opens the standby of `db`. It connects with the first read. */
export function openStandby({ url, db, log }: { url: string; db: Reader; log: Log }): Standby {
  const reader = openReader({ url, log });
  const stateAt = async (position: string): Promise<StandbyState> => {
    const [state] = await reader
      .query<StandbyState>({
        text: `select ${IDENTITY}, pg_is_in_recovery() as is_standby,
            coalesce(pg_wal_lsn_diff($1::pg_lsn, pg_last_wal_replay_lsn()), 0)::float8 as behind_bytes,
            extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp())::float8 as behind_s`,
        values: [position],
      })
      .catch((error: Error) => {
        throw new StandbyError(`${VARIABLE}: the server does not answer: ${error.message}. Start it, or correct it`);
      });
    if (state === undefined) throw new StandbyError(`${VARIABLE}: the server gave no state`);
    return state;
  };
  return {
    query: reader.query,
    close: reader.close,
    async catchUp() {
      const [primary] = await db.query<Identity & { position: string }>({
        text: `select ${IDENTITY}, pg_current_wal_flush_lsn()::text as position`,
      });
      if (primary === undefined) throw new StandbyError("the database gave no position");
      const deadline_ms = monotonicMs() + CATCH_UP_MS;
      for (;;) {
        const state = await stateAt(primary.position);
        refuseOther(state, primary);
        if (state.behind_bytes <= 0) return;
        if (monotonicMs() > deadline_ms) throw new StandbyError(`${VARIABLE}: ${stale(state)}`);
        await delay(LOOK_MS);
      }
    },
  };
}

function refuseOther(state: StandbyState, primary: Identity): void {
  if (state.system !== primary.system || state.name !== primary.name) {
    throw new StandbyError(
      `${VARIABLE}: its database ${state.name} is not a copy of the database of DATABASE_URL. Give the address of a streaming standby of that server, with the same database name`,
    );
  }
  if (!state.is_standby) {
    throw new StandbyError(
      `${VARIABLE}: the server is not a standby: it accepts writes. Give the address of a streaming standby`,
    );
  }
}

function stale({ behind_bytes, behind_s }: StandbyState): string {
  const age = behind_s === null ? "" : `, and its last commit is ${Math.round(behind_s)} s old`;
  const waited = `the standby is ${behind_bytes} bytes behind the database after ${CATCH_UP_MS / 1000} s${age}`;
  return `${waited}. Check its replication, or unset the variable to read from the database itself`;
}

/** Returns a reader that has all earlier commits. */
export type Reads = () => Promise<Reader>;

/**
 * Reads on the standby, and on the database itself while the standby cannot be used. The log says why, once until it
 * works again.
 */
export function createReads({ db, standby, log }: { db: Reader; standby: Standby | null; log: Log }): Reads {
  if (standby === null) return async () => db;
  let is_used = true;
  const failed = (error: Error) => {
    if (is_used) log.warn({ reason: error.message }, "exports and audits read from the database, not from its standby");
    is_used = false;
  };
  return async () => {
    try {
      await standby.catchUp();
    } catch (error) {
      failed(error as Error);
      return db;
    }
    if (!is_used) log.info("exports and audits read from the standby again");
    is_used = true;
    let source: Reader = standby;
    const query = async <Row>(statement: Statement): Promise<Row[]> => {
      try {
        return await source.query<Row>(statement);
      } catch (error) {
        if (source === db) throw error;
        failed(error as Error);
        source = db;
        return source.query<Row>(statement);
      }
    };
    return { query };
  };
}
