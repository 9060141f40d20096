import { CronPattern } from "croner";

/** The days of a schedule, and the times at which it is due on each of them, ascending. */
export interface DayPattern {
  isDue(date: Temporal.PlainDate): boolean;
  times: readonly Temporal.PlainTime[];
}

/** Names of months and weekdays, which croner reads. */
const NAMES = /\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat)\b/gi;
/** What is left of five fields without the names: no seconds, and none of the signs that only some implementations have. */
const FIVE_FIELDS = /^[\d*,/-]+(?:\s+[\d*,/-]+){4}$/;

/**
 * A cron expression of five fields: minute, hour, day of month, month, day of week (0 and 7 are Sunday). Vixie cron's
 * rule: if neither day field begins with `*`, a day is due if either matches; otherwise both must. Throws an Error for
 * any other text.
 */
export function parseCron(cron: string): DayPattern {
  const text = cron.trim();
  if (!FIVE_FIELDS.test(text.replace(NAMES, "0"))) throw new Error(`${cron} is no cron expression of five fields`);
  const pattern = new CronPattern(text, "UTC", { mode: "5-part" });
  const [, , day_field = "*", , weekday_field = "*"] = text.split(/\s+/);
  const either = !day_field.startsWith("*") && !weekday_field.startsWith("*");
  const times = indexesOf(pattern.hour).flatMap((hour) =>
    indexesOf(pattern.minute).map((minute) => new Temporal.PlainTime(hour, minute)),
  );
  return {
    times,
    isDue(date) {
      if (pattern.month[date.month - 1] === 0) return false;
      const is_day = pattern.day[date.day - 1] !== 0;
      const is_weekday = pattern.dayOfWeek[date.dayOfWeek % 7] !== 0;
      return either ? is_day || is_weekday : is_day && is_weekday;
    },
  };
}

function indexesOf(flags: readonly number[]): number[] {
  return flags.flatMap((flag, index) => (flag === 0 ? [] : [index]));
}
