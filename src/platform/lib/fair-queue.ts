/** The work did not begin: the queue is full, or its signal was aborted while it waited. */
export class QueueRefused extends Error {}

interface Waiter {
  begin(): void;
}

export interface FairQueue {
  /**
   * Runs `work` in the user's turn: users take turns, each with a limited number of pieces at a time. Rejects with
   * QueueRefused when the queue is full, or when `signal` is aborted before the work begins.
   */
  run<Result>(user: string, signal: AbortSignal, work: () => Promise<Result>): Promise<Result>;
  /** Whether another user's work waits for a slot. */
  isWanted(): boolean;
}

/** A bounded queue for `slots` workers, of which one user has `slots_each` at most (default 1). */
export function createFairQueue({
  slots_each = 1,
  ...limits
}: {
  slots: number;
  slots_each?: number;
  waiting: number;
  waiting_each: number;
}): FairQueue {
  // The users' waiting work, in the order of the users' turns.
  const lines = new Map<string, Waiter[]>();
  const at_work = new Map<string, number>();
  let busy = 0;
  let waiting = 0;

  const nextUser = () => [...lines.keys()].find((user) => (at_work.get(user) ?? 0) < slots_each);
  const count = (user: string, change: 1 | -1) => {
    const pieces = (at_work.get(user) ?? 0) + change;
    if (pieces === 0) at_work.delete(user);
    else at_work.set(user, pieces);
    busy += change;
  };

  function beginNext(): void {
    while (busy < limits.slots) {
      const user = nextUser();
      if (user === undefined) return;
      const line = lines.get(user) ?? [];
      const waiter = line.shift();
      lines.delete(user);
      if (line.length > 0) lines.set(user, line);
      waiting -= 1;
      count(user, 1);
      waiter?.begin();
    }
  }

  function leave(user: string, waiter: Waiter): void {
    const line = lines.get(user) ?? [];
    const rest = line.filter((each) => each !== waiter);
    waiting -= line.length - rest.length;
    if (rest.length === 0) lines.delete(user);
    else lines.set(user, rest);
  }

  async function turn(user: string, signal: AbortSignal): Promise<void> {
    const line = lines.get(user) ?? [];
    if (signal.aborted || waiting >= limits.waiting || line.length >= limits.waiting_each) throw new QueueRefused();
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => {
        leave(user, waiter);
        reject(new QueueRefused());
      };
      const waiter = {
        begin() {
          signal.removeEventListener("abort", onAbort);
          resolve();
        },
      };
      signal.addEventListener("abort", onAbort, { once: true });
      lines.set(user, [...line, waiter]);
      waiting += 1;
      beginNext();
    });
  }

  return {
    isWanted: () => nextUser() !== undefined,
    async run(user, signal, work) {
      await turn(user, signal);
      try {
        return await work();
      } finally {
        count(user, -1);
        // The user's next work waits behind all users that wait now.
        const line = lines.get(user);
        if (line !== undefined && lines.delete(user)) lines.set(user, line);
        beginNext();
      }
    },
  };
}
