import { setTimeout as delay } from "node:timers/promises";
import type pg from "pg";
import { monotonicMs } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import type { Log } from "../telemetry/log.ts";

const RECONNECT_MS = 250;
/** Heartbeat interval of the listening connection. Contract 3 gives a revocation one second. */
const HEARTBEAT_MS = 250;
/** After SILENT_MS without an answer, the connection may have missed notifications. After DEAD_MS, it is reopened. */
const SILENT_MS = 700;
const DEAD_MS = 5_000;
/** A notification of another connection must arrive within this time. */
const PROOF_MS = 5_000;
const PROOF_CHANNEL = "purser_proof";

interface Listening {
  heard(payload: string): void;
  lost?: (() => void) | undefined;
}

/** The listening connection does not receive notifications. The message tells the operator what to change. */
export class NotificationsLostError extends Error {
  constructor(
    fault = "a notification (NOTIFY) of one connection does not reach another that listens, so revoked keys would stay valid",
  ) {
    super(
      `DATABASE_URL: ${fault}; accepted: the address of the PostgreSQL server itself, or of a pooler in session mode (PgBouncer: pool_mode = session)`,
    );
    this.name = "NotificationsLostError";
  }
}

interface Pulse {
  isFelt(): boolean;
}

/**
 * Sends heartbeats, because a connection can be cut silently. Destroys a connection that stays silent.
 *
 * The server sends notifications before its answers to later queries. So while answers arrive, no notification is
 * missing.
 */
function createPulse(client: pg.Client): Pulse {
  let felt_ms = monotonicMs();
  let asking = false;
  const silence = () => monotonicMs() - felt_ms;
  const timer = setInterval(() => {
    if (asking) {
      if (silence() > DEAD_MS) client.connection.stream.destroy();
      return;
    }
    asking = true;
    const asked_ms = monotonicMs();
    const answered = () => {
      felt_ms = asked_ms;
      asking = false;
    };
    client.query("select 1").then(answered, () => clearInterval(timer));
  }, HEARTBEAT_MS);
  client.on("end", () => clearInterval(timer));
  return { isFelt: () => silence() < SILENT_MS };
}

/**
 * Proves that the connection receives notifications: another connection sends one. A pooler in transaction mode drops
 * LISTEN without an error.
 */
async function proveHearing(client: pg.Client, notify: (channel: string, payload: string) => Promise<unknown>) {
  const proof = newId();
  let has_ended = false;
  const heard = new Promise<boolean>((resolve) => {
    client.on("notification", ({ payload }) => payload === proof && resolve(true));
    client.on("end", () => {
      has_ended = true;
      resolve(false);
    });
  });
  await client.query(`listen ${PROOF_CHANNEL}`);
  await notify(PROOF_CHANNEL, proof);
  // The time counts from here: a database that is slow to answer is no pooler.
  const timeout = new AbortController();
  const silence = delay(PROOF_MS, false, { signal: timeout.signal }).catch(() => false);
  const is_heard = await Promise.race([heard, silence]);
  timeout.abort();
  if (has_ended) throw new Error("the listening connection ended");
  if (!is_heard) throw new NotificationsLostError();
}

/**
 * One connection that only listens. When it drops, every listener's `lost` is called: notifications may be missing.
 *
 * `notify` sends a notification on another connection. `failed` gets each error of connecting again.
 */
export function createChannels(deps: {
  connect(): Promise<pg.Client>;
  notify(channel: string, payload: string): Promise<unknown>;
  failed(error: unknown): void;
  log: Log;
}) {
  const listeners = new Map<string, Set<Listening>>();
  let connected: Promise<pg.Client> | undefined;
  let pulse: Pulse | undefined;
  let closed = false;

  const lost = () => {
    for (const set of listeners.values()) for (const listening of set) listening.lost?.();
  };
  const open = async (): Promise<pg.Client> => {
    const client = await deps.connect();
    client.on("notification", (message) => {
      for (const listening of listeners.get(message.channel) ?? []) listening.heard(message.payload ?? "");
    });
    const own = createPulse(client);
    try {
      for (const channel of listeners.keys()) await client.query(`listen ${client.escapeIdentifier(channel)}`);
      await proveHearing(client, deps.notify);
    } catch (error) {
      void client.end().catch(() => {});
      throw error;
    }
    pulse = own;
    const dropped = () => {
      pulse = undefined;
      if (closed) return;
      lost();
      connected = reopen();
    };
    client.on("end", dropped);
    return client;
  };
  const reopen = async (): Promise<pg.Client> => {
    let is_reported = false;
    while (!closed) {
      try {
        const client = await open();
        lost(); // notifications between the drop and now were missed
        return client;
      } catch (error) {
        const is_deaf = error instanceof NotificationsLostError;
        // The database itself answers, so this is no outage.
        if (!is_deaf) deps.failed(error);
        else if (!is_reported) {
          is_reported = true;
          deps.log.error(error.message);
        }
        await delay(RECONNECT_MS);
      }
    }
    throw new Error("closed");
  };

  return {
    isListening: () => pulse?.isFelt() ?? false,
    async listen(channel: string, heard: (payload: string) => void, lostOne?: () => void) {
      const listening: Listening = { heard, lost: lostOne };
      const set = listeners.get(channel) ?? new Set();
      const isNew = set.size === 0;
      listeners.set(channel, set.add(listening));
      connected ??= open();
      const client = await connected;
      if (isNew) await client.query(`listen ${client.escapeIdentifier(channel)}`);
      return async () => {
        set.delete(listening);
      };
    },
    async close() {
      closed = true;
      await connected?.then((client) => client.end()).catch(() => {});
    },
  };
}
