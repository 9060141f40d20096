import { flushCompileCache } from "node:module";
import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { ConfigError, listeningError, metricsListeningError, readConfig } from "../config/config.ts";
import { SHUTDOWN_SECONDS } from "../kernel/constants.ts";
import { NotificationsLostError } from "../platform/db/postgres-channels.ts";
import { RELEASE } from "../platform/lib/release.ts";
import { createLog, exitOnUncaught, type Log } from "../platform/telemetry/log.ts";
import { KeyringError } from "../vault/keyring.ts";
import { watchNames } from "./setting-faults.ts";

/** The process: configuration, signals, exit codes. 2: a setting cannot be used; 1: it could not start. */

const PARENT_CHECK_MS = 250;

function fail(code: number, message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(code);
}

function configuration() {
  try {
    const { watched, unknown } = watchNames(process.env);
    const config = readConfig(watched);
    return { config, warnings: [...config.warnings, ...unknown()] };
  } catch (error) {
    if (error instanceof ConfigError) fail(2, error.message);
    throw error;
  }
}

async function main(): Promise<void> {
  const { config, warnings } = configuration();
  const node = `${hostname()}-${process.pid}`;
  const log = createLog(config.log_level, { node, role: config.role, version: RELEASE });
  exitOnUncaught(log);
  const signals = createSignals(log);
  for (const warning of warnings) log.warn(warning);
  // Imported late, so that a wrong setting is reported at once.
  const { listen } = await import("../api/http/listen.ts");
  // Before anything is created. A start may migrate for minutes, and a supervisor must not take that for a dead process.
  const server = await listen(null, config).catch((error: Error) => {
    throw listeningError(error, config);
  });
  const { metrics_address } = config;
  const metrics_server =
    metrics_address === null
      ? null
      : await listen(null, metrics_address).catch((error: Error) => {
          throw metricsListeningError(error, metrics_address);
        });
  const { createApp } = await import("../app/app.ts");
  const app = await createApp(config, log);
  app.listeningAt(server.url);
  await server.serve(app.http);
  await metrics_server?.serve(app.probes);
  process.stdout.write(`listening on ${server.url}\n`);
  log.info({ ...app.about, url: server.url, metrics_url: metrics_server?.url }, "started");
  if (metrics_server !== null) process.stdout.write(`metrics on ${metrics_server.url}\n`);

  // Node writes its compile cache when a process ends, and not if it is killed. Without it, a start takes twice as long.
  flushCompileCache();

  let stopping = false;
  const { drain_seconds, lame_duck_seconds } = config;
  const stop = async (signal: string) => {
    if (stopping) return;
    stopping = true;
    app.refuseReadiness();
    if (lame_duck_seconds > 0) {
      log.info({ signal, lame_duck_seconds }, "stopping: not ready any more, and still accepting requests");
      await delay(lame_duck_seconds * 1000);
    }
    log.info({ signal, drain_seconds }, "stopping: calls in flight may end");
    setTimeout(app.cutOff, drain_seconds * 1000).unref();
    const close_s = drain_seconds + SHUTDOWN_SECONDS.streams;
    // A stuck database, for example, must not keep the process.
    const exit = () => {
      log.error(
        "the drain is over, and the process exits with work left: other nodes resume its runs, and its holds expire",
      );
      process.exit(1);
    };
    setTimeout(exit, (close_s + SHUTDOWN_SECONDS.exit) * 1000).unref();
    app.beginStop();
    await server.stop(close_s * 1000);
    await app.stop();
    // Closed last, so that monitors see the service until its end.
    await metrics_server?.stop();
    process.exit(0);
  };
  // The log has the reason of a rejected reload.
  signals.started({ stop, reload: () => void app.reload().catch(() => {}) });
  stopWithParent(stop);
}

interface SignalActions {
  stop(signal: string): void;
  reload(): void;
}

/**
 * Listens for signals before the service has started, because a start may wait for the database or migrate for minutes. Without
 * listeners, SIGHUP would end the process, which a supervisor takes for a normal end, and the first process of a container
 * would ignore SIGTERM.
 */
function createSignals(log: Log) {
  let is_reload_due = false;
  let actions: SignalActions = {
    stop(signal) {
      log.info({ signal }, "stopped during the start");
      process.exit(0);
    },
    reload: () => {
      is_reload_due = true;
    },
  };
  process.on("SIGTERM", (signal) => actions.stop(signal));
  process.on("SIGINT", (signal) => actions.stop(signal));
  process.on("SIGHUP", () => actions.reload());
  return {
    started(next: SignalActions): void {
      actions = next;
      if (is_reload_due) next.reload();
    },
  };
}

/** Stops when npm was killed: otherwise the process would continue unseen and keep the port. */
function stopWithParent(stop: (signal: string) => Promise<void>): void {
  if (process.env.npm_lifecycle_event === undefined) return;
  const parent = process.ppid;
  setInterval(() => process.ppid !== parent && stop("npm is gone"), PARENT_CHECK_MS).unref();
}

main().catch((error: Error) => {
  const is_setting = [KeyringError, ConfigError, NotificationsLostError].some((kind) => error instanceof kind);
  if (is_setting) fail(2, error.message);
  fail(1, `Purser could not start: ${error.message}`);
});
