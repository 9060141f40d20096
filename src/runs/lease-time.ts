/**
 * Decides by which time leases expire, because the database's clock, which writes the leases, can be set. If it is set
 * one hour ahead, every lease looks expired, although its worker is alive and renews it at the next heartbeat.
 *
 * The node computes from its own steady clock what the database's clock should show. After a jump it judges leases by
 * that computed time for the length of a lease. A lease that was not renewed in that period is lost.
 *
 * `step_ms`: a smaller difference is not a jump. `lease_ms`: the length of a lease.
 */
export function createLeaseTime({ step_ms, lease_ms }: { step_ms: number; lease_ms: number }) {
  let ahead_ms: number | null = null;
  let stepped_at_ms: number | null = null;

  /**
   * Takes the time of the database's clock and the steady time at which it was read. Returns the time, by the
   * database's clock, at which to judge leases.
   */
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
