import { errors } from "../errors.ts";

/**
 * The headers of a caller that a provider with Anthropic's API gets: `anthropic-version` and `anthropic-beta`. Programs
 * need betas that this service does not know, so any name is sent, but only names and not too many. Pure.
 */

const MAX_BETAS = 32;
const BETA = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
const VERSION = /^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/;

/** Throws the 400 that names a header with anything else in it. Absent and empty headers are left out. */
export function providerHeaders(headerOf: (name: string) => string | undefined): Record<string, string> {
  const version = headerOf("anthropic-version")?.trim() ?? "";
  if (version !== "" && !VERSION.test(version)) {
    throw errors.invalidValue(
      "anthropic-version",
      "The header anthropic-version must be a version such as 2023-06-01.",
    );
  }
  // Many headers of this name arrive as one list.
  const betas = (headerOf("anthropic-beta") ?? "").split(",").flatMap((name) => name.trim() || []);
  if (betas.length > MAX_BETAS || !betas.every((name) => BETA.test(name))) {
    throw errors.invalidValue(
      "anthropic-beta",
      `The header anthropic-beta must be a list of at most ${MAX_BETAS} names, each of 1 to 100 letters, digits, ".", "-" and "_", separated by commas.`,
    );
  }
  return {
    ...(version === "" ? {} : { "anthropic-version": version }),
    ...(betas.length === 0 ? {} : { "anthropic-beta": betas.join(",") }),
  };
}
