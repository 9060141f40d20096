/** How many jobs run at once, and how many may wait. */
export interface FairQueueLimits {
  readonly running: number;
  readonly waiting: number;
  readonly waiting_per_user: number;
}

/** A queue in which users take turns: one user's jobs run one after the other, and never before another user's turn. */
export interface FairQueue {
  /** Runs `job` when it is the user's turn. null: too many jobs wait, and this one was not run. */
  run<T>(user_id: string, job: () => Promise<T>): Promise<T | null>;
}

/** Makes a queue that is empty. */
export function createFairQueue(limits: FairQueueLimits): FairQueue {
  const running = new Set<string>();
  /** Users in the order of their turns. */
  const waiting = new Map<string, (() => void)[]>();
  let waiting_jobs = 0;

  /** Waits until the user may run a job; false when too many wait. */
  async function turnOf(user_id: string): Promise<boolean> {
    if (running.size < limits.running && !running.has(user_id)) {
      running.add(user_id);
      return true;
    }
    const jobs = waiting.get(user_id) ?? [];
    if (waiting_jobs >= limits.waiting || jobs.length >= limits.waiting_per_user) return false;
    waiting_jobs += 1;
    waiting.set(user_id, jobs);
    await new Promise<void>((resolve) => jobs.push(resolve));
    return true;
  }

  /** Others go first after a user's turn. */
  function moveToEnd(user_id: string): void {
    const jobs = waiting.get(user_id);
    if (jobs === undefined) return;
    waiting.delete(user_id);
    waiting.set(user_id, jobs);
  }

  function startNext(): void {
    for (const [user_id, jobs] of waiting) {
      if (running.has(user_id)) continue;
      const start = jobs.shift();
      if (jobs.length === 0) waiting.delete(user_id);
      if (start === undefined) continue;
      waiting_jobs -= 1;
      running.add(user_id);
      start();
      return;
    }
  }

  return {
    async run(user_id, job) {
      if (!(await turnOf(user_id))) return null;
      try {
        return await job();
      } finally {
        running.delete(user_id);
        moveToEnd(user_id);
        startNext();
      }
    },
  };
}
