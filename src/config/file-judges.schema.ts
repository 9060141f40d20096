import { z } from "zod";
import { MODEL_ID } from "../gateway/models/models.types.ts";
import { awsRegionOf, JUDGE_KINDS, type JudgeKind } from "../safety/judge-kinds.ts";
import { count, httpAddress, number, record, text, title, VARIABLE } from "./file-fields.ts";

/** contract 9: `safety.judges` of the configuration file. */

const KINDS = Object.keys(JUDGE_KINDS) as JudgeKind[];
/** Kinds whose services answer nobody without a key. */
const WITH_SECRET: ReadonlySet<JudgeKind> = new Set(["lakera", "azure_prompt_shields"]);
const GUARDRAIL_PATH = /^\/guardrail\/[^/]+\/version\/[^/]+\/apply$/;
const MAX_TIMEOUT_MS = 60_000;

export const judge = record({
  kind: z.enum(KINDS, `must be ${KINDS.slice(0, -1).join(", ")} or ${KINDS.at(-1)}`),
  /** The path may be left out, except for bedrock. */
  url: httpAddress.optional(),
  /** The variable that holds the service's key. Absent for bedrock: AWS's default credentials sign the request. */
  secret_env: text(VARIABLE, "must be the name of an environment variable").optional(),
  model: text(MODEL_ID, "must be the id of a chat model").optional(),
  project_id: title.optional(),
  threshold: number().positive("must be above 0").max(1, "must be at most 1").default(0.5),
  timeout_ms: count(100, MAX_TIMEOUT_MS).default(5_000),
  when: z.enum(["doubtful", "always"], "must be doubtful or always").default("doubtful"),
  on_error: z.enum(["keep_local", "block"], "must be keep_local or block").default("keep_local"),
})
  .superRefine(({ kind, url, secret_env, model, project_id }, { addIssue }) => {
    const fault = (field: string, message: string) => addIssue({ code: "custom", path: [field], message });
    const is_model = kind === "model";
    if (is_model && model === undefined) fault("model", "is missing");
    if (!is_model && model !== undefined) fault("model", "is for judges of kind model only");
    if (is_model && url !== undefined)
      fault("url", "is not for judges of kind model: the model's provider has an address");
    if (is_model && secret_env !== undefined) fault("secret_env", "is not for judges of kind model");
    if (!is_model && url === undefined) fault("url", "is missing");
    if (kind !== "lakera" && project_id !== undefined) fault("project_id", "is for judges of kind lakera only");
    if (WITH_SECRET.has(kind) && secret_env === undefined) fault("secret_env", "is missing");
    if (kind !== "bedrock" || url === undefined) return;
    const address = new URL(url);
    if (!GUARDRAIL_PATH.test(address.pathname)) {
      fault("url", "must end with /guardrail/{id}/version/{version}/apply");
    } else if (secret_env === undefined && awsRegionOf(address) === null) {
      fault(
        "url",
        "must be at bedrock-runtime.{region}.amazonaws.com, or needs secret_env: the signature needs the region",
      );
    }
  })
  .transform(({ kind, url, secret_env, model, project_id, ...rest }) => ({
    ...rest,
    kind,
    url: url === undefined ? null : withPath(url, kind),
    secret_env: secret_env ?? null,
    model: model ?? null,
    project_id: project_id ?? null,
  }));

/** The address with the kind's own path if it has none. */
function withPath(url: string, kind: JudgeKind): string {
  const { path = null } = JUDGE_KINDS[kind] as { path?: string | null };
  const address = new URL(url);
  const is_bare = address.pathname === "/" && address.search === "";
  return is_bare && path !== null ? new URL(path, address).href : url;
}
