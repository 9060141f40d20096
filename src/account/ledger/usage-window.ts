import { MAX_USAGE_DAYS } from "../../api/contract/usage.ts";
import { USAGE_DAYS } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import { addDays } from "../../platform/lib/clock.ts";
import type { Instant } from "../../platform/lib/instant.ts";

const startOfDay = (instant: Instant): Instant => `${instant.slice(0, 10)}T00:00:00.000Z`;

/**
 * The whole UTC days of a report on usage: `from` is the start of the first one, `to` of the one after the last. Throws 400
 * for an impossible window.
 */
export function usageWindow(
  asked: { days?: number | undefined; from?: Instant | undefined; to?: Instant | undefined },
  now: Instant,
): { from: Instant; to: Instant; days: number } {
  if (asked.days !== undefined && asked.from !== undefined)
    throw errors.invalidValue("days", "days and from name the same window: give one of them.");
  const to = asked.to === undefined ? addDays(startOfDay(now), 1) : startOfDay(asked.to);
  const from = asked.from === undefined ? addDays(to, -(asked.days ?? USAGE_DAYS.default)) : startOfDay(asked.from);
  const days = (Date.parse(to) - Date.parse(from)) / 86_400_000;
  if (days < 1)
    throw errors.invalidValue(
      "from",
      "from must be a day before to, which is the day after the last one: tomorrow unless given.",
    );
  if (days > MAX_USAGE_DAYS)
    throw errors.invalidValue("from", `from and to may be ${MAX_USAGE_DAYS} days apart: ask for each year by itself.`);
  return { from, to, days };
}
