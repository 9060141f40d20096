/** Work that runs one at a time. */
export interface Coalesced {
  /** Starts the work. During a run, it makes the work run once more afterwards, because that run may have looked before. */
  run(): void;
  /** Resolves when the present run has ended. */
  done(): Promise<void>;
}

/** Coalesces calls of `work`, which must not throw. */
export function coalesced(work: () => Promise<void>): Coalesced {
  let running: Promise<void> | null = null;
  let is_asked_again = false;

  function run(): void {
    is_asked_again = running !== null;
    running ??= work().finally(() => {
      running = null;
      if (is_asked_again) run();
    });
  }
  return { run, done: async () => running ?? undefined };
}
