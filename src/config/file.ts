import { type Document, isMap, isNode, isScalar, LineCounter, parseDocument, visit } from "yaml";
import type { z } from "zod";
import { payableUnits } from "../account/billing/currency.ts";
import type { SettingOfFile } from "../api/contract/admin-service.ts";
import type { ClassRates, ModelKind, ModelSettings, Rates } from "../gateway/models/models.types.ts";
import { BUILT_IN_PROVIDERS, traitsOf } from "../gateway/models/providers.ts";
import { isJsonObject } from "../platform/lib/json.ts";
import { withoutCredentials } from "./described-settings.ts";
import { configFileSchema, FILE_KEYS, type FileSettings } from "./file.schema.ts";
import { OPEN_KINDS } from "./file-models.schema.ts";
import { ConfigError } from "./values.ts";

const ACCEPTED = `a YAML or JSON file with the keys ${FILE_KEYS.join(", ")}`;

/** Something wrong with the file, at the place in the document that `path` leads to. */
interface Problem {
  readonly path: readonly PropertyKey[];
  readonly reason: string;
}

/**
 * Parses the text of the file at `path`. Throws a ConfigError with
 * the file, the line and the reason of the first thing that is wrong.
 */
export function parseConfigFile(text: string, path: string): FileSettings {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: "error" });
  const refuse = (offset: number, reason: string, others: readonly string[] = []): never => {
    throw new ConfigError("PURSER_CONFIG", placed(offset, reason), ACCEPTED, others);
  };
  const placed = (offset: number, reason: string) => `${path}:${lines.linePos(offset).line}: ${reason}`;

  const [syntaxError] = [...document.errors, ...document.warnings];
  if (syntaxError !== undefined) return refuse(syntaxError.pos[0], syntaxError.message);
  const parsed = configFileSchema.safeParse(toContent(document, refuse) ?? {});
  const problems = parsed.success
    ? contradictions(parsed.data)
    : parsed.error.issues.map((issue) => explainProblem(issue, document));
  const [first, ...others] = problems
    .map(({ path: at, reason }) => ({ offset: getOffset(document, at), reason: `${getName(at)}${reason}` }))
    .sort((a, b) => a.offset - b.offset);
  if (first !== undefined) {
    const further = others.map(({ offset, reason }) => `PURSER_CONFIG: ${placed(offset, reason)}`);
    return refuse(first.offset, first.reason, further);
  }
  return parsed.data as FileSettings;
}

/** The fields by which entries of lists are named. */
const NAMES = ["id", "name"];

/** A file that can be used, as it is written. */
export interface WrittenFile {
  readonly path: string;
  /** Its values in their order. An entry of a list goes by its id or name: `models.lab/a.input_rate`. */
  readonly settings: readonly SettingOfFile[];
  /** The entries of `models` by their ids, each with the line where it begins. */
  readonly models: ReadonlyMap<string, { entry: unknown; line: number }>;
}

export function describeFile(text: string, path: string): WrittenFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const content = document.toJS() ?? {};
  const lineOf = (at: readonly PropertyKey[]) => lines.linePos(getOffset(document, at)).line;
  const models: { id: string }[] = content.models ?? [];
  return {
    path,
    settings: listValues(content, lineOf),
    models: new Map(models.map((entry, index) => [entry.id, { entry, line: lineOf(["models", index]) }])),
  };
}

/** The values of the file that are in force where the file does not have them. */
export function listDefaults(written: readonly SettingOfFile[]): SettingOfFile[] {
  const has_plans = written.some(({ path }) => path.startsWith("plans."));
  const { plans, ...others } = configFileSchema.parse({});
  const isWritten = (name: string) => written.some(({ path }) => path === name || path.startsWith(`${name}.`));
  return listValues(has_plans ? others : { ...others, plans }, () => null).filter(({ path }) => !isWritten(path));
}

function listValues(
  content: unknown,
  lineOf: (path: readonly PropertyKey[]) => number | null,
  at: { path: readonly PropertyKey[]; name: string } = { path: [], name: "" },
): SettingOfFile[] {
  const within = (key: PropertyKey, name: string, value: unknown) =>
    listValues(value, lineOf, { path: [...at.path, key], name: at.name === "" ? name : `${at.name}.${name}` });
  if (Array.isArray(content) && content.some(isJsonObject)) {
    return content.flatMap((entry, index) => {
      const named = NAMES.find((field) => typeof entry?.[field] === "string");
      return within(index, named === undefined ? String(index + 1) : entry[named], entry);
    });
  }
  if (isJsonObject(content)) return Object.entries(content).flatMap(([key, value]) => within(key, key, value));
  if (at.name === "") return [];
  return [{ path: at.name, value: withoutCredentials(content), line: lineOf(at.path) }];
}

/** The content of the document. Rejects an alias without its anchor, and aliases that would fill the memory. */
function toContent(document: Document.Parsed, refuse: (offset: number, reason: string) => never): unknown {
  try {
    return document.toJS();
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    return refuse(aliasOffset(document), error.message);
  }
}

/** The place of the first alias without its anchor, otherwise of the first alias. */
function aliasOffset(document: Document.Parsed): number {
  const offsets: number[] = [];
  visit(document, {
    Alias(_, alias) {
      const [offset = 0] = alias.range ?? [];
      if (alias.resolve(document) !== undefined) offsets.push(offset);
      else {
        offsets.unshift(offset);
        return visit.BREAK;
      }
    },
  });
  return offsets[0] ?? 0;
}

/** Problems between fields: duplicates, unknown references, inconsistent numbers. */
function contradictions(settings: FileSettings): Problem[] {
  const provider_names = settings.providers.map((provider) => provider.name);
  return [
    ...duplicates("providers", "name", provider_names),
    ...duplicates(
      "models",
      "id",
      settings.models.map((model) => model.id),
    ),
    ...duplicates(
      "plans",
      "id",
      settings.plans.map((plan) => plan.id),
    ),
    ...currencyContradictions(settings),
    ...settings.models.flatMap((model, index) => modelContradictions(model, ["models", index], settings)),
  ];
}

/** An upgrade costs the difference of two prices, so all plans have one currency. */
function currencyContradictions({ plans }: FileSettings): Problem[] {
  const first = plans[0]?.currency;
  return plans.flatMap(({ currency, price_cents }, index) => {
    const reason = `is ${currency}, but the first plan's is ${first}: all plans must have the same currency`;
    if (currency !== first) return [{ path: ["plans", index, "currency"], reason }];
    const step = payableUnits(currency);
    const uneven = `must be a multiple of ${step} in ${currency}: cards cannot pay smaller amounts`;
    return price_cents % step === 0 ? [] : [{ path: ["plans", index, "price_cents"], reason: uneven }];
  });
}

function modelContradictions(model: ModelSettings, path: readonly PropertyKey[], settings: FileSettings): Problem[] {
  const problems: Problem[] = [];
  const { model_kind } = model;
  if (model_kind === "embedding" && model.routes.length > 0) {
    problems.push({ path: [...path, "routes"], reason: "are for chat models: an embedding model names one provider" });
  }
  const ways = model.routes.map((route, index) => ({ ...route, at: [...path, "routes", index, "provider"] }));
  for (const { provider, at } of ways.length > 0 ? ways : [{ ...model, at: [...path, "provider"] }]) {
    const known = [...settings.providers, ...BUILT_IN_PROVIDERS];
    const kind = known.find(({ name }) => name === provider)?.kind;
    if (kind === undefined) {
      const reason = `${JSON.stringify(provider)} is neither built in nor among the providers of this file`;
      problems.push({ path: at, reason });
    } else if (model.forward.length > 0 && !traitsOf(kind).takes_other_fields) {
      const reason = `works with providers of the kinds ${OPEN_KINDS} only`;
      problems.push({ path: [...path, "forward"], reason });
    } else if (model_kind === "embedding" && !traitsOf(kind).sells_embeddings) {
      problems.push({ path: [...path, "kind"], reason: `cannot be embedding: providers of kind ${kind} sell none` });
    }
  }
  for (const [index, { provider, at }] of ways.entries()) {
    if (ways.findIndex((way) => way.provider === provider) === index) continue;
    const reason = `${JSON.stringify(provider)} is a duplicate: for another key, list the provider again under another name`;
    problems.push({ path: at, reason });
  }
  problems.push(...rateContradictions(model, { path, model_kind }));
  for (const [index, dated] of model.prices.entries()) {
    const at = [...path, "prices", index];
    if (dated.valid_from !== null && dated.valid_until !== null && dated.valid_until <= dated.valid_from) {
      problems.push({ path: [...at, "valid_until"], reason: "must be after valid_from" });
    }
    problems.push(...rateContradictions(dated, { path: at, model_kind }));
  }
  if (model.max_output_tokens > model.context_window) {
    problems.push({ path: [...path, "max_output_tokens"], reason: "is above context_window" });
  }
  return problems;
}

/**
 * contract 4.2: output costs no less than input, in each tier; and tiers are in ascending order. An embedding model has no
 * rate of output.
 */
function rateContradictions(
  { tiers, ...base }: Rates,
  { path, model_kind }: { path: readonly PropertyKey[]; model_kind: ModelKind },
): Problem[] {
  const problems: Problem[] = [];
  const check = ({ input_rate_micro, output_rate_micro }: ClassRates, at: readonly PropertyKey[]) => {
    if (model_kind === "embedding") {
      const reason = "is not for models of kind embedding: they have no output. Remove it";
      if (output_rate_micro !== 0) problems.push({ path: [...at, "output_rate"], reason });
      return;
    }
    if (output_rate_micro < input_rate_micro) {
      problems.push({ path: [...at, "output_rate"], reason: "must not be below input_rate" });
    }
  };
  check(base, path);
  let above = 0;
  for (const [index, tier] of tiers.entries()) {
    const at = [...path, "tiers", index];
    check(tier, at);
    if (tier.above_input_tokens <= above) {
      problems.push({ path: [...at, "above_input_tokens"], reason: "must be above that of the tier before" });
    }
    above = tier.above_input_tokens;
  }
  return problems;
}

function duplicates(list: string, field: string, names: readonly string[]): Problem[] {
  return names.flatMap((name, index) =>
    names.indexOf(name) === index
      ? []
      : [{ path: [list, index, field], reason: `${JSON.stringify(name)} is a duplicate` }],
  );
}

function explainProblem(issue: z.core.$ZodIssue, document: Document.Parsed): Problem {
  const [unknown] = issue.code === "unrecognized_keys" ? issue.keys : [];
  const path = unknown === undefined ? issue.path : [...issue.path, unknown];
  const is_there = unknown !== undefined || document.hasIn(path);
  return { path, reason: is_there ? issue.message : "is missing" };
}

/** The place of `path` in the text: of its key where it has one, else of its value, else of the nearest thing around. */
function getOffset(document: Document.Parsed, path: readonly PropertyKey[]): number {
  const parent = document.getIn(path.slice(0, -1), true);
  const last = path.at(-1);
  if (isMap(parent)) {
    const pair = parent.items.find(({ key }) => (isScalar(key) ? key.value : key) === last);
    if (pair !== undefined && isNode(pair.key) && pair.key.range) return pair.key.range[0];
  }
  const node = document.getIn(path, true);
  if (isNode(node) && node.range) return node.range[0];
  return path.length === 0 ? 0 : getOffset(document, path.slice(0, -1));
}

/** `models[0].input_rate ` as people write it; empty for the file itself. */
function getName(path: readonly PropertyKey[]): string {
  const name = path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`)).join("");
  return name === "" ? "" : `${name.replace(/^\./, "")} `;
}
