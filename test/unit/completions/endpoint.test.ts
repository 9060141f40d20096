import { expect, it } from "vitest";
import type {
  AnswerWriter,
  CompletionResult,
  Completions,
} from "../../../src/gateway/completions/completions.types.ts";
import { answerCall, type ModelCallRequest } from "../../../src/gateway/completions/endpoint.ts";
import { DatabaseAwayError } from "../../../src/kernel/sql-state.ts";
import { requestOf } from "../models/model-fixture.ts";

it.each([
  ["an internal error", new TypeError("secret detail"), "internal"],
  ["the database", new DatabaseAwayError(new Error("secret detail")), "overloaded"],
])(
  "a charged answer that does not reach its caller because of %s tells clients not to retry",
  async (_, thrown, code) => {
    const http = {
      caller: { user_id: "u", api_key_id: null },
      request_id: "r",
      facts: {},
      cut_off: new AbortController().signal,
    } as unknown as ModelCallRequest;
    const charged = { response: { choices: [] }, usage: {}, model_id: "lab/small" } as unknown as CompletionResult;
    const completions = { complete: async () => charged } as unknown as Completions;
    const writer = {
      whole: async () => {
        throw thrown;
      },
    } as unknown as AnswerWriter;
    const error = await answerCall(http, completions, { request: requestOf(), writer }).catch((failed) => failed);
    expect(error.shape).toMatchObject({ code, has_acted: true });
    expect(error.message).not.toContain("secret detail");
    expect(error.cause).toBe(thrown);
  },
);
