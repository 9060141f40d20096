/**
 * Returns the result of `work`, or throws the signal's reason on abort. `work` continues after an abort; ignores its
 * late result or error.
 */
export async function raceAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  if (signal.aborted) abort();
  else signal.addEventListener("abort", abort, { once: true });
  return await Promise.race([work, promise]).finally(() => signal.removeEventListener("abort", abort));
}
