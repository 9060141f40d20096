import type { ChatResponse } from "../../api/contract/completions.ts";
import { fieldsOf, isJsonObject, isTooDeep, jsonOrUndefined } from "../../platform/lib/json.ts";
import { type AnswerPart, newIdentity } from "./answer-events.ts";
import { createMessageBuilder } from "./answer-message.ts";
import { createEventReader } from "./event-reader.ts";
import type { Dialect } from "./language-model-dialect.ts";
import type { Completion, ProviderRequest } from "./models.types.ts";
import { createNativeAnswer } from "./native-answer.ts";
import { type Receiving, type StreamReader, wholeAnswer } from "./provider-answers.ts";
import { brokenProvider, failedAnswer } from "./provider-errors.ts";
import { noteResponseModel } from "./provider-spans.ts";

/** Reads the answers of providers with APIs of their own, each in its dialect. */

const MAX_EVENT_CHARACTERS = 33_554_432;

/** A reader of the stream of one request. Throws PurserErrors. */
export function createNativeReader(
  request: ProviderRequest,
  dialect: Dialect,
  { onDisbelieved, secrets }: Receiving,
): StreamReader {
  const { model } = request;
  const answer = createNativeAnswer(request, dialect, onDisbelieved);
  const reader = dialect.reader(answer);
  let has_model = false;
  const source = createEventReader(model, { max_characters: MAX_EVENT_CHARACTERS, read });

  function read({ data }: { data: string }): void {
    if (isTooDeep(data)) throw brokenProvider(model, "an event that nests too deeply");
    const event = jsonOrUndefined(data);
    if (event === undefined) {
      if (data.trim() !== "[DONE]") throw brokenProvider(model, "an event that is no JSON");
      return;
    }
    if (!isJsonObject(event)) return;
    if (isJsonObject(event.error) || event.type === "error") {
      throw failedAnswer(model, "an error event", { body: event, secrets });
    }
    if (!has_model && reportedModel(event) !== undefined) {
      has_model = true;
      noteResponseModel(reportedModel(event));
    }
    reader.read(event);
    if (answer.ending() === "failed")
      throw failedAnswer(model, "an answer that failed", { body: event.response ?? event, secrets });
    if (reader.isLast(event)) end();
  }

  function end(): void {
    reader.close();
    if (answer.ending() === null) throw brokenProvider(model, "a stream that was cut off");
    answer.end();
    source.end();
  }

  function taken(): AnswerPart[] {
    const events = answer.taken();
    if (events.length > 0) return [{ events }];
    source.throwFault();
    return [];
  }

  return {
    push(text) {
      source.feed(text);
      return taken();
    },
    close() {
      source.close(end);
      return taken();
    },
    isDone: source.isDone,
    counts: answer.counts,
  };
}

/** The model's name in an answer or an event of Google, OpenAI or Anthropic. */
function reportedModel(body: Record<string, unknown>): unknown {
  return body.modelVersion ?? body.model ?? fieldsOf(body.response).model ?? fieldsOf(body.message).model;
}

/** A whole answer, as text. Throws PurserErrors. */
export function nativeCompletion(
  text: string,
  request: ProviderRequest,
  dialect: Dialect,
  { onDisbelieved, secrets }: Receiving,
): Completion {
  const { model } = request;
  const body = wholeAnswer(text);
  if (!isJsonObject(body)) throw brokenProvider(model, "an answer that is no JSON object");
  const answer = createNativeAnswer(request, dialect, onDisbelieved);
  noteResponseModel(reportedModel(body));
  dialect.readWhole(body, answer);
  if (isJsonObject(body.error) || body.type === "error" || answer.ending() === "failed") {
    throw failedAnswer(model, "a failed answer", { body, secrets });
  }
  answer.end();
  const builder = createMessageBuilder();
  answer.taken().forEach(builder.add);
  const said = builder.message();
  const content = said.content === null && said.tool_calls === undefined ? "" : said.content;
  const stop_sequence = builder.stopSequence();
  const stop = stop_sequence === null ? {} : { stop_reason: stop_sequence };
  const finish_reason = builder.finishReason();
  const response: ChatResponse = {
    ...newIdentity(),
    object: "chat.completion",
    model: model.id,
    choices: [{ index: 0, message: { ...said, content }, logprobs: null, finish_reason, ...stop }],
  };
  return { response, counts: answer.counts() };
}
