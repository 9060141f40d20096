import type { Ledger } from "../../account/ledger/ledger.types.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { ScheduleId, Schedules } from "../schedules/schedules.service.ts";

/** Waiting schedules that one turn of the sweep checks. A longer list takes several turns. */
const SWEEP_LIMIT = 1_000;

/**
 * Resumes schedules that a lack of tokens paused. Each has stored the account's number of refills at its run, and
 * resumes once per later refill, even if the new tokens are not enough.
 */
export function createWaitingSchedules(deps: {
  schedules: Pick<Schedules, "waitingForTokens" | "resumeForTokens">;
  ledger: Pick<Ledger, "refills">;
  log: Log;
}) {
  const { schedules, ledger, log } = deps;
  let swept_to: ScheduleId | null = null;

  const resume = async (waiting: Awaited<ReturnType<Schedules["waitingForTokens"]>>): Promise<void> => {
    if (waiting.length === 0) return;
    const refills = await ledger.refills([...new Set(waiting.map(({ user_id }) => user_id))]);
    for (const { user_id, id, agent_id, resume_above } of waiting) {
      const count = refills.get(user_id) ?? 0;
      if (count <= resume_above) continue;
      if (await schedules.resumeForTokens({ user_id, id }, count)) {
        log.info({ agent_id, schedule_id: id }, "a schedule that waited for tokens goes on");
      }
    }
  };

  return {
    /** For the ledger: resumes the user's schedules at once. If this fails, the sweep resumes them. */
    async onGrant(user_id: string): Promise<void> {
      try {
        await resume(await schedules.waitingForTokens({ user_id, after: null, limit: SWEEP_LIMIT }));
      } catch (error) {
        log.warn({ user_id, error }, "schedules that waited for tokens resume at the next sweep");
      }
    },
    /**
     * Resumes schedules that missed their grant: the process crashed after the grant, or the pause came after it. Call
     * it every second or so.
     */
    async resumeRefilled(): Promise<void> {
      const waiting = await schedules.waitingForTokens({ user_id: null, after: swept_to, limit: SWEEP_LIMIT });
      const last = waiting.at(-1);
      swept_to = waiting.length < SWEEP_LIMIT || last === undefined ? null : last;
      await resume(waiting);
    },
  };
}
