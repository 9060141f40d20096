import type { Config } from "./config.ts";
import { ConfigError } from "./config-error.ts";
import { errors } from "./errors.ts";
import type { Models } from "./models/models.service.ts";
import type { Log } from "./platform/log.ts";

/** The settings that a reload replaces. Modules read them at each use. */
export type LiveSettings = Pick<Config, "limits" | "plans" | "trial">;

/** What a reload has put into force. */
export interface Reloaded {
  /** Names the price list in force. */
  price_version: string | null;
  models: number;
  plans: number;
}

export type Reload = () => Reloaded;

/**
 * Reads PURSER_CONFIG and the catalogue again, on this node. Everything is checked before anything is replaced, and a
 * file with a fault replaces nothing. Throws the 400 with the reason.
 */
export function createReload(options: { config: Config; live: LiveSettings; models: Models; log: Log }): Reload {
  const { config, live, models, log } = options;
  return () => {
    const next = rereadOrReject(config, log);
    // The only step that may fail is the first: the others replace references.
    models.reload(next);
    live.limits = next.limits;
    live.plans = next.plans;
    live.trial = next.trial;
    for (const warning of next.warnings) if (!config.warnings.includes(warning)) log.warn(warning);
    const offered = models.list();
    const reloaded = {
      price_version: offered[0]?.price_version ?? null,
      models: offered.length,
      plans: next.plans.length,
    };
    log.info(reloaded, "reloaded: new calls have the new models, prices, plans and limits");
    return reloaded;
  };
}

function rereadOrReject(config: Config, log: Log): Config {
  try {
    return config.reread();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    log.error({ reason: error.message }, "the reload was rejected, and nothing has changed");
    throw errors.invalidValue("PURSER_CONFIG", `Nothing was reloaded. ${error.message}. Correct it and reload again.`);
  }
}
