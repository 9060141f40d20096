/** A file that its caller has not read from for this long ends, because it occupies a connection or a transaction. */
const STALLED_MS = 60_000;

/** The stream, which fails when its caller stops reading for a time. `over` runs once it has ended in any way. */
export function readWithin(
  source: ReadableStream<Uint8Array>,
  { stalled_ms = STALLED_MS, over = () => {} }: { stalled_ms?: number | undefined; over?: () => void },
): ReadableStream<Uint8Array> {
  const reader = source.getReader();
  let stalled: NodeJS.Timeout | undefined;
  const end = () => {
    clearTimeout(stalled);
    over();
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      clearTimeout(stalled);
      try {
        const { done, value } = await reader.read();
        if (done) {
          end();
          return controller.close();
        }
        controller.enqueue(value);
        stalled = setTimeout(() => {
          end();
          controller.error(new Error("the caller has stopped reading"));
          void reader.cancel().catch(() => {});
        }, stalled_ms).unref();
      } catch (error) {
        end();
        throw error;
      }
    },
    async cancel() {
      end();
      await reader.cancel();
    },
  });
}
