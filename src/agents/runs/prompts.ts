import type { RunData, RunTrigger } from "../../api/contract/runs.ts";
import { WEEKDAYS } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import { editDistance } from "../../kernel/nearest.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { isJsonObject } from "../../platform/lib/json.ts";
import type { Schema } from "../../platform/lib/value-schema.ts";
import { fence } from "../../safety/fence.ts";
import type { EngineInput, Prompts } from "./transcript.ts";

/** The prompts of an agent, with placeholders such as {{input.city}} for what differs from run to run. Pure. */

/** Names of placeholders, beside the fields of `input`. */
const NAMES = ["input", "now", "date", "weekday", "schedule.name", "last_output", "last_run_at"];
const PLACEHOLDER = /(?<!\{)\{\{[ \t]*([A-Za-z_][\w.-]{0,199})[ \t]*\}\}(?!\})/g;
/** Each may insert 64 KB. */
const MAX_PLACEHOLDERS = 50;
const MAX_LAST_OUTPUT_BYTES = 32_768;
const CUT_OFF = "\n[the rest is left out]";

/** What a run's prompts are rendered from. It never changes once the run has begun, so a resumed run has the same prompts. */
export interface PromptFacts {
  trigger: RunTrigger;
  scheduled_for: Instant | null;
  queued_at: Instant;
  input: RunData | null;
  engine_input: unknown;
}

/** Throws 400 for a near miss of a placeholder's name. Other text in double braces stays as it is. */
export function checkPlaceholders(text: string | null, param: string, input_schema: Schema | null): void {
  const names = [...(text ?? "").matchAll(PLACEHOLDER)].map(([, name = ""]) => name);
  if (names.filter(isKnown).length > MAX_PLACEHOLDERS) {
    throw errors.invalidValue(param, `${param} has more than ${MAX_PLACEHOLDERS} placeholders.`);
  }
  for (const name of names) {
    const meant = isKnown(name) ? meantField(name, input_schema) : meantName(name);
    if (meant === null) continue;
    throw errors.invalidValue(param, `${param} has no value for {{${name}}}: did you mean {{${meant}}}?`);
  }
}

/** Whether the prompts need the last succeeded run. */
export function usesLastRun({ system_prompt, run_prompt }: Prompts): boolean {
  return [...`${system_prompt} ${run_prompt}`.matchAll(PLACEHOLDER)].some(([, name]) => name?.startsWith("last_"));
}

/**
 * The prompts of a run: placeholders replaced, in one pass, input that none of them uses added to the run_prompt, and the
 * time of the run at the end of the system prompt, after all that is the same in each run.
 */
export function renderPrompts(config: Prompts, facts: PromptFacts): Prompts {
  const { prompts, input_mark } = facts.engine_input as EngineInput;
  return prompts ?? render(config, facts, (text) => (input_mark === undefined ? text : fenced(text, input_mark)));
}

/** The same, with each text of the input as `makeSafe` returns it. */
export async function renderSafePrompts(
  config: Prompts,
  facts: PromptFacts,
  makeSafe: (text: string) => Promise<string>,
): Promise<Prompts> {
  const texts = new Set<string>();
  render(config, facts, (text) => {
    texts.add(text);
    return text;
  });
  const safe = new Map<string, string>();
  for (const text of texts) safe.set(text, await makeSafe(text));
  return render(config, facts, (text) => safe.get(text) ?? "");
}

function render(config: Prompts, facts: PromptFacts, asData: (text: string) => string): Prompts {
  const { schedule, timezone = "UTC", last = null } = facts.engine_input as EngineInput;
  const zone = schedule?.timezone ?? timezone;
  const at = facts.scheduled_for ?? facts.queued_at;
  const used = new Set<string>();

  const textFor = (name: string): string => {
    switch (name) {
      case "now":
        return localTime(at, zone);
      case "date":
        return localTime(at, zone).slice(0, 10);
      case "weekday":
        return getWeekday(at, zone);
      case "schedule.name":
        return schedule?.name ?? "";
      case "last_output":
        return last?.output ?? "none";
      case "last_run_at":
        return last === null ? "never" : localTime(last.finished_at, zone);
      default:
        return inputText(name);
    }
  };
  const inputText = (name: string): string => {
    const [, ...path] = name.split(".");
    for (const key of path.length === 0 ? Object.keys(facts.input ?? {}) : path.slice(0, 1)) used.add(key);
    const value = path.length === 0 ? (facts.input ?? {}) : valueAt(facts.input, path);
    if (value == null) return "";
    return asData(typeof value === "string" ? value : JSON.stringify(value));
  };
  const fill = (text: string) =>
    text.replaceAll(PLACEHOLDER, (written, name: string) => (isKnown(name) ? textFor(name) : written));

  const system = config.system_prompt === null ? null : fill(config.system_prompt);
  const task = config.run_prompt === null ? null : fill(config.run_prompt);
  if (facts.trigger === "chat") return { system_prompt: system, run_prompt: task };
  const unused = Object.fromEntries(Object.entries(facts.input ?? {}).filter(([key]) => !used.has(key)));
  const data = Object.keys(unused).length === 0 ? [] : [`Input, as JSON:\n${asData(JSON.stringify(unused))}`];
  const is_due = facts.scheduled_for !== null;
  const time = `This run ${is_due ? "was due" : "began"} on ${getWeekday(at, zone)}, ${localTime(at, zone)} (${zone}).`;
  return {
    system_prompt: [system ?? [], time].flat().join("\n\n"),
    run_prompt: [task ?? [], data].flat().join("\n\n"),
  };
}

/** All texts of an input. */
export function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

/** The output of a succeeded run for the prompts of a later one: data, at most 32 KB. */
export function fenceLastOutput(output: string, mark: string): string {
  const bytes = Buffer.from(output);
  if (bytes.length <= MAX_LAST_OUTPUT_BYTES) return fenced(output, mark);
  const kept = new TextDecoder().decode(bytes.subarray(0, MAX_LAST_OUTPUT_BYTES), { stream: true });
  return fenced(`${kept}${CUT_OFF}`, mark);
}

function fenced(text: string, mark: string): string {
  return fence([{ text, is_doubtful: false }], "", mark);
}

function isKnown(name: string): boolean {
  return NAMES.includes(name) || name.startsWith("input.");
}

/** The value at a path of own properties; undefined: there is none. */
function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, key) => {
    return typeof at === "object" && at !== null && Object.hasOwn(at, key) ? (at as RunData)[key] : undefined;
  }, value);
}

function localTime(at: Instant, zone: string): string {
  const local = Temporal.Instant.from(at).toZonedDateTimeISO(zone);
  return local.toString({ timeZoneName: "never", smallestUnit: "minute" });
}

function getWeekday(at: Instant, zone: string): string {
  const { dayOfWeek } = Temporal.Instant.from(at).toZonedDateTimeISO(zone);
  const name = WEEKDAYS[dayOfWeek - 1] ?? "";
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** The known name that an unknown one is a near miss of; null: it is other text. Short names are common words. */
function meantName(name: string): string | null {
  const [first = "", ...path] = name.split(".");
  if (path.length > 0 && isNear(first, "input")) return ["input", ...path].join(".");
  return NAMES.find((known) => isNear(name, known)) ?? null;
}

/** The field of `input_schema` that an unknown field of `input` is a near miss of. */
function meantField(name: string, input_schema: Schema | null): string | null {
  const [, field, ...path] = name.split(".");
  const { properties } = input_schema ?? {};
  if (field === undefined || !isJsonObject(properties) || Object.hasOwn(properties, field)) return null;
  const meant = Object.keys(properties).find((known) => isNear(field, known, known.length < 4 ? 1 : 2));
  return meant === undefined ? null : ["input", meant, ...path].join(".");
}

/** Whether the names differ in case, in what separates their words, or in a few letters. */
function isNear(name: string, known: string, most = known.length < 5 ? 0 : known.length < 8 ? 1 : 2): boolean {
  const [one, other] = [letters(name), letters(known)];
  return editDistance(one, other) <= most;
}

function letters(name: string): string {
  return name.toLowerCase().replaceAll(/[\s_.-]/g, "");
}
