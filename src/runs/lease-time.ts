/**
 * By which time leases are over. The database's clock writes them, and it can be set: an hour on, and every lease looks
 * over, though its worker lives and renews it at its next heartbeat. So a node that reaps knows by its own steady clock
 * what time it must be there. A clock that is elsewhere has been set: for as long as a lease lasts, leases are judged by
 * what its time would be; what has not been renewed by then is lost indeed.
 *
 * `step_ms`: less than that is no step; `lease_ms`: how long a lease lasts.
 */
export function createLeaseTime({ step_ms, lease_ms }: { step_ms: number; lease_ms: number }) {
  let ahead_ms: number | null = null;
  let stepped_at_ms: number | null = null;

  /** Takes what the database's clock has just shown, and at what steady time. The time to judge leases by, by the same clock. */
  return function judgedAt(database_ms: number, steady_ms: number): number {
    const seen_ms = database_ms - steady_ms;
    if (ahead_ms === null || seen_ms - ahead_ms < step_ms) stepped_at_ms = null;
    else stepped_at_ms ??= steady_ms;
    if (stepped_at_ms === null || steady_ms - stepped_at_ms >= lease_ms) {
      ahead_ms = seen_ms;
      stepped_at_ms = null;
    }
    return steady_ms + (ahead_ms ?? seen_ms);
  };
}
