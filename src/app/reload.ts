import type { SettingsRecord } from "../api/contract/admin-service.ts";
import type { Config } from "../config/config.ts";
import { FILE_KEYS } from "../config/file.schema.ts";
import { listDefaults } from "../config/file.ts";
import { listPricedModels } from "../config/model-entry.ts";
import { ConfigError } from "../config/values.ts";
import type { Models } from "../gateway/models/models.service.ts";
import { errors } from "../kernel/errors.ts";
import type { Clock } from "../platform/lib/clock.ts";
import type { Log } from "../platform/telemetry/log.ts";
import { createJudges, type Judges } from "../safety/judges.ts";

/** The settings that a reload replaces. Modules read them at each use. */
export interface LiveSettings extends Pick<Config, "limits" | "plans" | "trial"> {
  judges: Judges;
}

/** What a reload has put into force. */
export interface Reloaded {
  /** Names the price list in force. */
  price_version: string | null;
  models: number;
  plans: number;
  /** The settings that differed, such as `models.lab/a` or `trial`. */
  changed: string[];
}

/** A configuration that was read and checked, and is not yet in force. */
export interface PreparedReload {
  changed: string[];
  apply(): Reloaded;
}

export interface Reload {
  /** Throws the 400 with the reason of a file that cannot be used. */
  prepare(): PreparedReload;
  /** What is in force on this node. */
  describe(): SettingsRecord;
}

/** Settings of PURSER_CONFIG that are lists, with the field that names an entry. */
const LISTS = { models: "id", plans: "id", providers: "name" } as const;
const OTHERS = FILE_KEYS.filter((key) => !(key in LISTS));
const MAX_NAMED = 100;

/**
 * Reads PURSER_CONFIG and the catalogue again, on this node. Everything is checked before anything is replaced, and a
 * file with a fault replaces nothing.
 */
export function createReload(options: {
  config: Config;
  live: LiveSettings;
  models: Models;
  clock: Clock;
  log: Log;
}): Reload {
  const { config, live, models, clock, log } = options;
  let in_force = config;
  let read_at = clock.now();
  let last_reload: SettingsRecord["last_reload"] = null;
  const apply = (next: Config, changed: string[]): Reloaded => {
    // The only step that may fail is the first: the others replace references.
    models.reload(next);
    live.limits = next.limits;
    live.plans = next.plans;
    live.trial = next.trial;
    live.judges = createJudges(next.safety.judges, log);
    in_force = next;
    read_at = clock.now();
    last_reload = { at: read_at, changed, problem: null };
    for (const warning of next.warnings) if (!config.warnings.includes(warning)) log.warn(warning);
    const offered = models.list();
    const reloaded = {
      price_version: offered[0]?.price_version ?? null,
      models: offered.length,
      plans: next.plans.length,
      changed,
    };
    log.info(reloaded, "reloaded: new calls have the new models, prices, plans and limits");
    return reloaded;
  };
  const reread = (): Config => {
    try {
      return config.reread();
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      log.error({ reason: error.message }, "the reload was rejected, and nothing has changed");
      const problem = [error.message, ...error.others].join(". ");
      last_reload = { at: clock.now(), changed: [], problem };
      throw errors.invalidValue(
        "PURSER_CONFIG",
        `Nothing was reloaded. ${error.message}. Correct it and reload again.`,
      );
    }
  };
  return {
    prepare() {
      const next = reread();
      const changed = changedBetween(in_force, next);
      return { changed, apply: () => apply(next, changed) };
    },
    describe() {
      const { file, variables, warnings } = in_force;
      const written = file?.settings ?? [];
      return {
        read_at,
        file: file && { path: file.path },
        variables: [...variables],
        file_settings: [...written, ...listDefaults(written)],
        models: listPricedModels([...models.list(), ...models.embeddings()], in_force),
        warnings: [...warnings],
        last_reload,
      };
    },
  };
}

function changedBetween(before: Config, after: Config): string[] {
  const lists = Object.entries(LISTS).flatMap(([list, name]) => {
    const collectTexts = (config: Config) =>
      new Map(
        (config[list as keyof typeof LISTS] as readonly object[]).map((entry) => [
          String(entry[name as keyof typeof entry]),
          JSON.stringify(entry),
        ]),
      );
    const [old, next] = [collectTexts(before), collectTexts(after)];
    const names = [...new Set([...old.keys(), ...next.keys()])];
    return names.filter((each) => old.get(each) !== next.get(each)).map((each) => `${list}.${each}`);
  });
  const others = OTHERS.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  const all = [...lists, ...others];
  if (all.length <= MAX_NAMED) return all;
  return [...all.slice(0, MAX_NAMED), `and ${all.length - MAX_NAMED} others`];
}
