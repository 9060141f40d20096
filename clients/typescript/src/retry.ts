/** When a call is repeated: by the headers of its answer. */

const FIRST_MS = 500;
const MOST_MS = 8_000;
/** A longer wait is the program's own decision. */
const LONGEST_RETRY_AFTER_S = 60;
const RETRYABLE: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);

/** `answer`: the answer, or the error of a request that got none. */
export function isRetryable(answer: Response | Error): boolean {
  // fetch throws a TypeError for a connection that failed, and other errors for a mistake or an abort.
  if (answer instanceof Error) return answer instanceof TypeError;
  const said = answer.headers.get("x-should-retry");
  if (said !== null) return said === "true";
  if (retryAfter(answer) > LONGEST_RETRY_AFTER_S) return false;
  return RETRYABLE.has(answer.status);
}

/** Waits as long as `Retry-After` says, otherwise longer with each attempt. */
export async function waitBeforeRetry(
  answer: Response | Error,
  { attempt, signal }: { attempt: number; signal: AbortSignal | null },
): Promise<void> {
  const seconds = answer instanceof Error ? 0 : retryAfter(answer);
  const backoff_ms = Math.min(MOST_MS, FIRST_MS * 2 ** attempt) * (0.75 + Math.random() / 2);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, seconds > 0 ? seconds * 1_000 : backoff_ms);
  const abort = () => {
    clearTimeout(timer);
    reject(signal?.reason);
  };
  signal?.addEventListener("abort", abort, { once: true });
  await promise.finally(() => signal?.removeEventListener("abort", abort));
}

function retryAfter({ headers }: Response): number {
  return Number(headers.get("retry-after") ?? 0) || 0;
}
