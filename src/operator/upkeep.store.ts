import type { UpkeepRecord } from "../api/contract/admin-service.ts";
import type { Db } from "../platform/db/db.ts";
import type { Clock } from "../platform/lib/clock.ts";
import type { Log } from "../platform/telemetry/log.ts";

export type UpkeepKind = "audit" | "backup";

/** Records how the last audit and the last backup ended. Owns `upkeep`. */
export function createUpkeep({ db, clock, log }: { db: Db; clock: Clock; log: Log }) {
  const last = async (kind: UpkeepKind): Promise<UpkeepRecord | null> => {
    const [row] = await db.query<UpkeepRecord>({
      text: "select ended_at, problem, succeeded_at from upkeep where kind = $1",
      values: [kind],
    });
    return row ?? null;
  };
  return {
    last,
    /** `problem`: null if there was none. A failure of the database is logged only: the work itself is done. */
    async ended(kind: UpkeepKind, problem: string | null): Promise<void> {
      await db
        .query({
          text: `insert into upkeep (kind, ended_at, problem, succeeded_at)
            values ($1, $2, $3, case when $3::text is null then $2::timestamptz end)
            on conflict (kind) do update set ended_at = excluded.ended_at, problem = excluded.problem,
              succeeded_at = coalesce(excluded.succeeded_at, upkeep.succeeded_at)`,
          values: [kind, clock.now(), problem],
        })
        .catch((error: Error) => log.warn({ kind, error }, "how an audit or a backup ended could not be recorded"));
    },
    /** Null: no backup has succeeded. */
    async backupAgeMs(): Promise<number | null> {
      const succeeded_at = (await last("backup"))?.succeeded_at ?? null;
      return succeeded_at === null ? null : Date.parse(clock.now()) - Date.parse(succeeded_at);
    },
  };
}

export type Upkeep = ReturnType<typeof createUpkeep>;

/** What an audit found, in a sentence; null: the ledger is in order. */
export function auditProblem(report: { violations: readonly { invariant: string }[] }): string | null {
  const [first, ...others] = report.violations;
  if (first === undefined) return null;
  return `Violated: ${first.invariant}${others.length === 0 ? "" : `, and ${others.length} others`}`;
}
