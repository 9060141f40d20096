/**
 * The longest time that `work` blocked the event loop, in milliseconds of this thread's processor time: other processes
 * of a busy machine do not count.
 */
export async function heldDuring(work: () => Promise<unknown>): Promise<number> {
  let worst_us = 0;
  let over = false;
  let last = process.threadCpuUsage();
  const look = () => {
    const { user, system } = process.threadCpuUsage(last);
    worst_us = Math.max(worst_us, user + system);
    last = process.threadCpuUsage();
    if (!over) setTimeout(look);
  };
  look();
  await work();
  over = true;
  look();
  return worst_us / 1_000;
}
