import {
  type AgentChanges,
  type AgentRecord,
  type AgentVersion,
  createAgentSchema,
  type ListedVersion,
} from "../../api/contract/agents.ts";
import type { Caller } from "../../api/contract/caller.ts";
import { thatFit } from "../../api/contract/common.ts";
import { AGENT_SCHEDULES } from "../../kernel/constants.ts";
import { stableJson } from "../../platform/lib/json.ts";
import type { ScheduleRow, Schedules } from "../schedules/schedules.service.ts";
import type { AgentConfig } from "./agent-config.ts";
import type { AgentRow, AgentsStore } from "./agents.store.ts";
import { splitChanges } from "./default-schedule.ts";
import { shownTo } from "./secret-bindings.ts";

const MAX_NAME = 200;
const OF_COPY = " (copy)";
/** Settings whose fields are compared one by one. */
const PARTS = new Set(["tools_config", "limits", "model_settings"]);

/** An agent's versions, and copies of agents: contract 6.8.4. */
export function createAgentVersions(deps: {
  store: Pick<AgentsStore, "versionSizes" | "versions">;
  schedules: Pick<Schedules, "list">;
  find(user_id: string, id: string): Promise<AgentRow>;
  get(user_id: string, id: string): Promise<AgentRecord>;
  version(user_id: string, id: string, number: string): Promise<AgentVersion>;
  create(
    caller: Caller,
    given: AgentChanges & { name: string },
    options: { copied: readonly ScheduleRow[] },
  ): Promise<AgentRecord>;
  update(caller: Caller, id: string, given: AgentChanges): Promise<AgentRecord>;
}) {
  const { store, schedules, find, get, version, create, update } = deps;
  return {
    /** Newest first, each with its changes; `before` is the last version of the page before. A page ends early as a list of agents does. */
    async versions(caller: Caller, id: string, { limit, before }: { limit: number; before: number | null }) {
      const { user_id } = caller;
      const agent = { user_id, agent_id: (await find(user_id, id)).id };
      const sizes = await store.versionSizes(agent, { limit: limit + 1, before });
      const fit = thatFit(sizes.slice(0, limit), ({ bytes }) => bytes);
      const numbers = sizes.slice(0, fit.length + 1).map((each) => each.version);
      const read = await store.versions(agent, numbers);
      const versions = read.slice(0, fit.length).map(({ version, config, created_at }, at): ListedVersion => {
        const older = read[at + 1];
        const changes = older === undefined ? [] : changesFor(caller, older.config, config);
        return { version, created_at, previous_version: older?.version ?? null, changes };
      });
      return { versions, next: sizes.length > fit.length ? (versions.at(-1)?.version ?? null) : null };
    },
    /** Makes a version's settings the present ones, in a new version; `is_active` and schedules stay. Throws as a change does. */
    async restore(caller: Caller, id: string, number: string): Promise<AgentRecord> {
      const { is_active: _, ...settings } = settingsIn(await version(caller.user_id, id, number));
      return update(caller, id, settings);
    },
    /** A new agent with the same settings and bindings, whose schedules are off. Throws as a creation does. */
    async duplicate(caller: Caller, id: string, { name }: { name?: string | undefined }): Promise<AgentRecord> {
      const { user_id } = caller;
      const agent = await get(user_id, id);
      const page = { limit: AGENT_SCHEDULES, after_id: null };
      const copied = await schedules.list({ user_id, agent_id: agent.id }, page);
      return create(caller, { ...settingsIn(agent), name: name ?? nameOfCopy(agent.name) }, { copied });
    },
  };
}

function nameOfCopy(name: string): string {
  const beginning = name.slice(0, MAX_NAME - OF_COPY.length).replace(/[\uD800-\uDBFF]$/, "");
  return `${beginning}${OF_COPY}`;
}

/** The settings in a record or a version that a request may set, without those of its schedule. */
function settingsIn(record: object): AgentChanges {
  const names = Object.keys(createAgentSchema.shape);
  return splitChanges(Object.fromEntries(Object.entries(record).filter(([name]) => names.includes(name)))).settings;
}

/** What differs between two versions; the names of secrets as `caller` may see them. */
function changesFor(caller: Caller, before: AgentConfig, after: AgentConfig): ListedVersion["changes"] {
  const [was, is] = [fieldsIn(before), fieldsIn(after)];
  const [shown_before, shown_after] = [fieldsIn(shownTo(caller, before)), fieldsIn(shownTo(caller, after))];
  return [...new Set([...was.keys(), ...is.keys()])]
    .sort()
    .filter((field) => stableJson(was.get(field)) !== stableJson(is.get(field)))
    .map((field) => ({ field, before: shown_before.get(field) ?? null, after: shown_after.get(field) ?? null }));
}

/** The fields of a configuration by name, and those of its parts as `limits.max_steps`. */
function fieldsIn(config: AgentConfig): Map<string, unknown> {
  const fields = Object.entries(config).flatMap(([name, value]): [string, unknown][] =>
    PARTS.has(name)
      ? Object.entries(value as object).map(([inner, each]) => [`${name}.${inner}`, each])
      : [[name, value]],
  );
  return new Map(fields);
}
