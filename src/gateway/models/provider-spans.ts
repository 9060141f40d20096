import { activeSpan, errorType, type Span, type SpanStart, traced, within } from "../../platform/telemetry/tracing.ts";
import type { Counts, Model, Provider, ProviderRequest, ProviderStream } from "./models.types.ts";
import type { ProviderKind } from "./providers.ts";

const MAX_NAME = 200;
/** The names of the conventions for GenAI. Other providers have their own name. */
const PROVIDER_NAMES: Partial<Record<ProviderKind, string>> = {
  openai: "openai",
  anthropic: "anthropic",
  google: "gcp.gemini",
};

/**
 * The provider with a span for each call, by the conventions for GenAI. Spans have names, settings and counts. Prompts
 * and answers are never in them.
 */
export function withSpans(provider: Provider): Provider {
  const { embed } = provider;
  return {
    ...provider,
    complete: (request, options) => {
      if (activeSpan()?.is_recorded !== true) return provider.complete(request, options);
      return traced(
        () => toSpan("chat", request.model),
        async (span) => {
          span.set(getSettings(request));
          const answer = await provider.complete(request, options);
          const finish_reasons = answer.response.choices.map(({ finish_reason }) => finish_reason ?? "");
          span.set(toUsage(answer.counts));
          span.set({ "gen_ai.response.finish_reasons": finish_reasons });
          return answer;
        },
      );
    },
    stream: async (request, options) => {
      const parent = activeSpan();
      if (parent?.is_recorded !== true) return provider.stream(request, options);
      const span = parent.begin(toSpan("chat", request.model));
      span.set(getSettings(request));
      try {
        return tracedStream(await within(span, () => provider.stream(request, options)), span);
      } catch (error) {
        span.end(errorType(error));
        throw error;
      }
    },
    ...(embed === undefined
      ? {}
      : {
          embed: (call, options) =>
            traced(
              () => toSpan("embeddings", call.model),
              async (span) => {
                const answer = await embed(call, options);
                span.set({ "gen_ai.usage.input_tokens": answer.input_tokens ?? undefined });
                return answer;
              },
            ),
        }),
  };
}

/** Notes the model that the provider says has answered, in the span of the call. Call it once for an answer. */
export function noteResponseModel(name: unknown): void {
  if (typeof name === "string") activeSpan()?.set({ "gen_ai.response.model": name.slice(0, MAX_NAME) });
}

/** The span ends with the stream: at its last event, at its failure, or when its reader leaves. */
function tracedStream(stream: ProviderStream, span: Span): ProviderStream {
  const end = (error?: string) => {
    span.set(toUsage(stream.counts()));
    span.end(error);
  };
  const next = async () => {
    try {
      const step = await within(span, () => stream.parts.next());
      if (step.done === true) end();
      return step;
    } catch (error) {
      end(errorType(error));
      throw error;
    }
  };
  return {
    ...stream,
    parts: { next },
    cancel() {
      stream.cancel();
      end();
    },
  };
}

function getSettings({ max_output_tokens }: ProviderRequest) {
  return { "gen_ai.request.max_tokens": max_output_tokens };
}

/** Kept, so that their attributes are encoded once. A model's only operation follows from its kind. */
const starts = new WeakMap<Model, SpanStart>();

function toSpan(operation: "chat" | "embeddings", model: Model): SpanStart {
  let start = starts.get(model);
  if (start === undefined) {
    start = {
      name: `${operation} ${model.provider_model}`,
      kind: "client",
      attributes: {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": PROVIDER_NAMES[model.kind] ?? model.owned_by,
        "gen_ai.request.model": model.provider_model,
        "purser.model": model.id,
      },
    };
    starts.set(model, start);
  }
  return start;
}

function toUsage({ input_tokens, output_tokens, cached_input_tokens, cache_write_tokens }: Counts) {
  return {
    "gen_ai.usage.input_tokens": input_tokens,
    "gen_ai.usage.output_tokens": output_tokens,
    "gen_ai.usage.cache_read.input_tokens": cached_input_tokens || undefined,
    "gen_ai.usage.cache_creation.input_tokens": cache_write_tokens || undefined,
  };
}
