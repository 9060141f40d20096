import type { Passwords } from "../account/users/password.ts";
import type { HttpApp } from "../api/http/fastify.ts";
import { createProbesHttp, createWorkerHttp } from "../api/http/server.ts";
import { healthRoutes, metricsRoutes, type NotReady } from "../api/http/system.routes.ts";
import type { Config } from "../config/config.ts";
import type { Log } from "../platform/telemetry/log.ts";
import { startBackground } from "./background.ts";
import { appErrors } from "./error-catalogue.ts";
import { publicOptions, serveApi } from "./routes.ts";
import { createServices } from "./services.ts";

/** The service, wired but not listening. */
export interface App {
  http: HttpApp;
  /** Health and metrics without a key, for PURSER_METRICS_ADDRESS. Where that is set, `http` has no metrics. */
  probes: HttpApp;
  /** For the line of the start. */
  about: { storage: string; models: number; mode?: "drill" };
  /** Sets the address that the server listens on, before any request. */
  listeningAt(url: string): void;
  /** Reads PURSER_CONFIG and the catalogue again. Rejects with the reason, and then nothing has changed. */
  reload(): Promise<void>;
  /** Ends readiness: load balancers send no further requests. Everything else works as before. */
  refuseReadiness(): void;
  /** Ends readiness and the execution of runs. */
  beginStop(): void;
  /** Ends calls that are still in flight at the end of the drain: streams with an error event, others with 503. */
  cutOff(): void;
  /** Ends background work and closes the database. Call it once no request is in flight. */
  stop(): Promise<void>;
}

/** services.ts constructs the modules, background.ts starts what runs by itself, routes.ts serves HTTP. */
export async function createApp(config: Config, log: Log, passwords?: Passwords): Promise<App> {
  const services = await createServices(config, log, passwords);
  const { metrics, tracer, db, settable, address, mailer, completions, accounts, limits, signIn } = services;
  const background = await startBackground(services);
  const cut_off = new AbortController();
  let stopping = false;
  const ready = async (): Promise<NotReady | null> => {
    if (stopping) return "stopping";
    if (background.isClockWrong()) return "clock_skew";
    if (db.state() === "disk_full") return "database_disk_full";
    await db.query({ text: "select 1" });
    return null;
  };
  const health = healthRoutes({ ready, is_drill: config.is_drill }).endpoints;
  const all_probes = [...health, ...metricsRoutes(metrics).endpoints];
  const probes = config.metrics_address === null ? all_probes : health;
  const http =
    config.role === "worker"
      ? createWorkerHttp(publicOptions(services), probes)
      : serveApi(services, { probes, sources: background.sources, cut_off: cut_off.signal });

  return {
    http,
    about: { storage: db.kind, models: services.models.list().length, ...(config.is_drill ? { mode: "drill" } : {}) },
    probes: createProbesHttp({ log, metrics }, all_probes),
    listeningAt: address.listeningAt,
    async reload() {
      services.reload().apply();
    },
    refuseReadiness() {
      stopping = true;
    },
    beginStop() {
      stopping = true;
      completions.beginStop();
      // A chat waits for its run while requests in flight finish.
      void background.stopRuns();
    },
    cutOff: () => cut_off.abort(appErrors.stopping()),
    async stop() {
      stopping = true;
      completions.beginStop();
      await background.stop();
      await completions.idle();
      await services.requests.close();
      await limits.close();
      await accounts.close();
      await signIn.close();
      await services.operator_keys.close();
      await mailer.close();
      await settable?.stop();
      await services.standby?.close();
      await db.close();
      await tracer?.close();
    },
  };
}
