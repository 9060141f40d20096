import { editDistance, nearestNames } from "../../kernel/nearest.ts";
import { invalid } from "../../kernel/purser-error.ts";

/** Names that one message lists. */
const MAX_LISTED = 20;

/** "a, b and c" */
function listed(names: readonly string[]): string {
  const shown = names.length > MAX_LISTED ? [...names.slice(0, MAX_LISTED), "others"] : names;
  return `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

/** Fewer names than this are listed when none is similar. */
const FEW = 12;

/** A name that differs in more letters is another one, such as `web_search` and `web_fetch`. */
const MAX_WRONG_LETTERS = 2;

/** What may have been meant by the last part of `param`, among the names that are known at its place. */
function suggestion(param: string, known: readonly string[]): string | null {
  const wanted = param.slice(param.lastIndexOf(".") + 1);
  const near = nearestNames(wanted, known);
  const is_few = known.length > 0 && known.length < FEW;
  const is_misspelt = near.some((name) => name.includes(wanted) || editDistance(name, wanted) <= MAX_WRONG_LETTERS);
  if (near.length > 0 && (is_misspelt || !is_few)) return `Did you mean ${near.join(" or ")}?`;
  return is_few ? `Known here: ${known.join(", ")}.` : null;
}

/** Errors of the parsing of requests. */
export const contractErrors = {
  invalidJson: (detail = "The body is not valid JSON") =>
    invalid("invalid_json", `${detail}. Send a JSON object with Content-Type: application/json.`),
  /** Names all unknown fields, because a caller that sends a whole record back must remove several. */
  unknownFields: (params: readonly [string, ...string[]], known: readonly string[] = []) => {
    const [param] = params;
    const message =
      params.length === 1
        ? `${param} is not a field of this request. ${suggestion(param, known) ?? "Remove it or correct its spelling."}`
        : `${listed(params)} are not fields of this request. Remove them or correct their spelling.`;
    return invalid("unknown_field", message, param);
  },
  /** A field that another address takes, which `advice` names in a sentence. */
  fieldElsewhere: (param: string, advice: string) =>
    invalid("unknown_field", `${param} is not a field of this request. ${advice}`, param),
  /** `known`: the parameters that the address takes. */
  unknownParameter: (param: string, known: readonly string[]) =>
    invalid(
      "unknown_parameter",
      `${param} is not a parameter of this address. ${suggestion(param, known) ?? "Remove it."}`,
      param,
    ),
  invalidCursor: () =>
    invalid("invalid_cursor", "cursor is not one that this list returned. Start again without it.", "cursor"),
};
