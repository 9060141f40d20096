/** `work`, or the signal's reason thrown. It goes on when it is given up; what comes of it then, a failure too, is nobody's any more. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  if (signal.aborted) abort();
  else signal.addEventListener("abort", abort, { once: true });
  return await Promise.race([work, promise]).finally(() => signal.removeEventListener("abort", abort));
}
