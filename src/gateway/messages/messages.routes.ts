import { createRouter, json, type Router } from "../../api/contract/endpoint.ts";
import { countTokensRoute, createMessageRoute, type MessagesRequest } from "../../api/contract/messages.ts";
import { errors } from "../../kernel/errors.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Completions } from "../completions/completions.types.ts";
import { answerCall, shownTypes } from "../completions/endpoint.ts";
import type { Envelopes } from "../completions/reasoning-envelope.ts";
import { createMessageWriter } from "./messages-answer.ts";
import { toChatRequest } from "./messages-request.ts";

/** The most names in `anthropic-beta`. */
const MAX_BETAS = 32;
const BETA = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
const VERSION = /^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/;

interface MessagesDeps {
  completions: Completions;
  envelopes: Envelopes;
  log: Log;
}

/** POST /api/v1/messages and /api/v1/messages/count_tokens: Anthropic's Messages API over chat completions. */
export function messagesRoutes({ completions, envelopes, log }: MessagesDeps): Router {
  const router = createRouter();
  router.on(createMessageRoute, async (http) => {
    const asked: MessagesRequest = http.body;
    const { user_id } = http.caller;
    const { request, dropped_tools, betas, needs_vision, paramOf, native } = toChatRequest(asked, (sealed) =>
      envelopes.open(user_id, sealed),
    );
    const provider_headers = providerHeaders(http.header, betas);
    if (dropped_tools.length > 0) {
      const { request_id } = http;
      log.info({ request_id, tools: shownTypes(dropped_tools) }, "tools that Anthropic executes itself were dropped");
    }
    const seal = envelopes.seal.bind(null, user_id);
    const stop_sequences = asked.stop_sequences ?? [];
    const writer = createMessageWriter({ model: asked.model, stop_sequences, newId, paramOf, seal });
    const of_provider = { provider_headers, needs_vision, ...(native === undefined ? {} : { native }) };
    return await answerCall(http, completions, { request, writer, ...of_provider });
  });
  router.on(countTokensRoute, async ({ caller, body }) => {
    const { request } = toChatRequest(body, (sealed) => envelopes.open(caller.user_id, sealed));
    return json({ input_tokens: await completions.estimate(request, caller) });
  });
  return router;
}

/**
 * The headers of a caller that a provider with Anthropic's API gets: `anthropic-version` and `anthropic-beta`. Programs
 * need betas that this service does not know, so any name is sent, but only names and not too many. Throws the 400 that
 * names a header with anything else in it. Absent and empty headers are left out. `needed`: betas of the caller's tools.
 */
export function providerHeaders(
  headerOf: (name: string) => string | undefined,
  needed: readonly string[] = [],
): Record<string, string> {
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
  const sent = [...new Set([...betas, ...needed])];
  return {
    ...(version === "" ? {} : { "anthropic-version": version }),
    ...(sent.length === 0 ? {} : { "anthropic-beta": sent.join(",") }),
  };
}
