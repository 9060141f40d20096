import { AsyncLocalStorage } from "node:async_hooks";
import { Agent, type Dispatcher } from "undici";
import { activeSpan } from "../platform/tracing.ts";

const agent = new Agent({ keepAliveTimeout: 30_000, connectTimeout: 10_000 });

/** The `onSent` callback of the current provider call. */
const sending = new AsyncLocalStorage<() => void>();

/** Keep-alive connections to all providers of this process. */
export const connections = agent.compose((dispatch) => (options, handler) => {
  const onSent = sending.getStore();
  return dispatch(withTrace(options), onSent === undefined ? handler : noting(handler, onSent));
});

/** Adds the header `traceparent` if the call is traced. */
function withTrace(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  const traceparent = activeSpan()?.traceparent ?? null;
  if (traceparent === null) return options;
  const { headers } = options;
  if (Array.isArray(headers)) return { ...options, headers: [...headers, "traceparent", traceparent] as string[] };
  if (headers != null && Symbol.iterator in headers) {
    return { ...options, headers: [...headers, ["traceparent", traceparent]] as never };
  }
  return { ...options, headers: { ...headers, traceparent } };
}

/** Runs `ask`, and calls `onSent` when its request is written: after the connection is open, before any answer. */
export function noteSent<T>(onSent: (() => void) | undefined, ask: () => T): T {
  return onSent === undefined ? ask() : sending.run(onSent, ask);
}

function noting(handler: Dispatcher.DispatchHandler, onSent: () => void): Dispatcher.DispatchHandler {
  return {
    onRequestStart(controller, context) {
      // The handler throws if the caller hung up while the connection was being opened.
      handler.onRequestStart?.(controller, context);
      if (!controller.aborted) onSent();
    },
    onRequestUpgrade: (...given) => handler.onRequestUpgrade?.(...given),
    onResponseStarted: () => handler.onResponseStarted?.(),
    onResponseStart: (...given) => handler.onResponseStart?.(...given),
    onResponseData: (...given) => handler.onResponseData?.(...given),
    onResponseEnd: (...given) => handler.onResponseEnd?.(...given),
    onResponseError: (...given) => handler.onResponseError?.(...given),
  };
}
