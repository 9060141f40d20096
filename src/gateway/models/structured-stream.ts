import type { ChatDelta, FinishReason } from "../../api/contract/completions.ts";
import { chunkEvent } from "./chunks.ts";
import { chunksIn } from "./event-relay.ts";
import type { CallOptions, Counts, Provider, ProviderRequest, ProviderStream } from "./models.types.ts";
import { correctionOf, jsonText } from "./structured-answer.ts";
import { estimateCounts, sumOfCounts } from "./token-count.ts";

/** A call that has begun and not ended. */
interface Running {
  request: ProviderRequest;
  /** Null until the provider answers. */
  stream: ProviderStream | null;
  is_sent: boolean;
}

/**
 * A checked answer as a stream: an event when the provider begins to answer, and the whole answer once it is checked.
 * The provider's calls are streams too, because only then is it known what a caller that leaves has to pay.
 */
export function checkedStream(
  provider: Provider,
  { call, schema, options }: { call: ProviderRequest; schema: Record<string, unknown>; options: CallOptions },
): ProviderStream {
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const ended: Counts[] = [];
  const now: { running: Running | null } = { running: null };
  let identity = { id: "", created: 0 };

  /** Starts a call and waits for its first event. */
  async function begin(request: ProviderRequest) {
    const running: Running = { request, stream: null, is_sent: false };
    now.running = running;
    const onSent = () => {
      running.is_sent = true;
      options.onSent?.();
    };
    const stream = await provider.stream(request, { ...options, signal, onSent });
    running.stream = stream;
    return { stream, first: await stream.blocks.next() };
  }

  /** Reads a call to its end. */
  async function heard({ stream, first }: Awaited<ReturnType<typeof begin>>): Promise<Answer> {
    const answer: Answer = { text: "", deltas: [], has_calls: false, finish_reason: null };
    for (let step = first; step.done !== true; step = await stream.blocks.next()) addTo(answer, step.value);
    ended.push(stream.counts());
    now.running = null;
    return answer;
  }

  /** Null if the correction failed: the first answer is invalid, but it is an answer. */
  async function corrected(correction: ProviderRequest): Promise<Answer | null> {
    try {
      return await heard(await begin(await provider.prepare(correction)));
    } catch (error) {
      signal.throwIfAborted();
      if (now.running === null) throw error;
      const counts = now.running.stream?.counts();
      if (counts !== undefined && counts.output_tokens > 0) ended.push(counts);
      now.running = null;
      return null;
    }
  }

  function event(delta: ChatDelta, finish_reason: FinishReason | null): string {
    const choices = [{ index: 0, delta, finish_reason }];
    return chunkEvent(identity, call.model.id, choices);
  }

  async function* events(): AsyncGenerator<string, undefined> {
    const begun = await begin(call);
    identity = begun.stream.identity();
    yield event({ role: "assistant", content: "" }, null);
    const first = await heard(begun);
    const content = first.has_calls ? null : jsonText(first.text);
    const wanted = correctionOf(call, { content, counts: ended[0] as Counts, schema });
    const correction = options.hung_up?.aborted === true ? null : wanted;
    const answer = (correction === null ? null : await corrected(correction)) ?? first;
    yield deltasOf(answer)
      .map((delta) => event(delta, null))
      .join("") + event({}, answer.finish_reason ?? "stop");
  }

  function counts(): Counts {
    const { running } = now;
    const unended =
      running?.stream?.counts() ?? (running?.is_sent === true ? estimateCounts(running.request, 0) : null);
    const [first, ...others] = unended === null ? ended : [...ended, unended];
    return first === undefined ? estimateCounts(call, 0) : sumOfCounts([first, ...others]);
  }

  const blocks = events();
  return {
    blocks: { next: () => blocks.next() },
    identity: () => identity,
    counts,
    cancel() {
      stop.abort();
      now.running?.stream?.cancel();
    },
  };
}

interface Answer {
  text: string;
  /** What the chunks add beside the text. */
  deltas: ChatDelta[];
  has_calls: boolean;
  finish_reason: FinishReason | null;
}

function addTo(answer: Answer, block: string): void {
  for (const { choices } of chunksIn(block)) {
    const [choice] = (Array.isArray(choices) ? choices : []) as { delta?: ChatDelta; finish_reason?: FinishReason }[];
    const { content, role: _, ...others } = choice?.delta ?? {};
    if (typeof content === "string") answer.text += content;
    if (Object.keys(others).length > 0) answer.deltas.push(others);
    if (Array.isArray(others.tool_calls) && others.tool_calls.length > 0) answer.has_calls = true;
    answer.finish_reason = choice?.finish_reason ?? answer.finish_reason;
  }
}

/** Reasoning, the whole text, and calls of tools, whose answer is not checked. */
function deltasOf({ text, deltas, has_calls }: Answer): ChatDelta[] {
  const content = { content: has_calls ? text : jsonText(text) };
  const first_call = deltas.findIndex(({ tool_calls }) => tool_calls !== undefined);
  return text === "" ? deltas : deltas.toSpliced(first_call === -1 ? deltas.length : first_call, 0, content);
}
