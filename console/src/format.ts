import { currencyDigits } from "../../src/account/billing/currency.ts";
import { TOKENS_PER_CENT } from "../../src/kernel/constants.ts";

/** Numbers, times and words for people. */

/** The console's texts are English, so dates and numbers are too: in the browser's English, such as en-GB, if it has one. */
export const LOCALE = navigator.languages?.find((language) => /^en\b/i.test(language)) ?? "en";

const whole = new Intl.NumberFormat(LOCALE);
const exact = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 6 });
const compact = new Intl.NumberFormat(LOCALE, { notation: "compact", maximumFractionDigits: 1 });

export const number = (value: number): string => whole.format(value);
/** A decimal that the API gives as text, with all its digits. */
export const decimal = (text: string): string => exact.format(text as Intl.StringNumericLiteral);
/** For tiles and axes: 1.2M. Show the exact figure beside it. */
export const short = (value: number): string =>
  Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value);

/** The price of tokens at the standard rate. */
export function dollars(tokens: number): string {
  return money(tokens / TOKENS_PER_CENT, "usd");
}

/** An amount in cents, or in the smallest units of another currency. Amounts below a dollar have more digits. */
export function money(cents: number, currency: string): string {
  const digits = currencyDigits(currency);
  const unit = 10 ** digits;
  const style = { style: "currency", currency, currencyDisplay: "narrowSymbol" } as const;
  if (cents !== 0 && Math.abs(cents) < 1) {
    return new Intl.NumberFormat(LOCALE, { ...style, maximumSignificantDigits: 2 }).format(cents / unit);
  }
  const is_small = cents !== 0 && Math.abs(cents) < unit;
  return new Intl.NumberFormat(LOCALE, {
    ...style,
    minimumFractionDigits: digits,
    maximumFractionDigits: is_small ? digits + 2 : digits,
  }).format(cents / unit);
}

/** Typed dollars in cents, with a point or a comma: "12.50", "12,5". NaN: no amount, or one that reads two ways: "1,250". */
export function centsOf(typed: string): number {
  const text = typed.trim();
  return /^\d+([.,]\d{1,2})?$/.test(text) ? Math.round(Number(text.replace(",", ".")) * 100) : Number.NaN;
}

const dateTime = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "short" });
const thisYear = new Intl.DateTimeFormat(LOCALE, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});
const dateOnly = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium" });
/** Date and time in the browser's zone, with the year unless it is the current year. */
export function instant(at: string): string {
  const date = new Date(at);
  return (date.getFullYear() === new Date().getFullYear() ? thisYear : dateTime).format(date);
}
/** An instant's day in the browser's zone, as date fields have it: `2026-03-01`. */
export function dayForInput(at: string): string {
  const date = new Date(at);
  const [month, day] = [date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0"));
  return `${String(date.getFullYear()).padStart(4, "0")}-${month}-${day}`;
}
/**
 * The instants of a filter's days in the browser's zone: from the start of the first to the end of the last. A link may give
 * instants: the days of usage are UTC.
 */
export function period(from: string | undefined, to: string | undefined) {
  const midnight = (date: string | undefined, days: number) => {
    if (date !== undefined && isInstant(date)) return date;
    const at = new Date(`${date}T00:00:00`);
    at.setDate(at.getDate() + days);
    // The API takes years of four digits.
    return Number.isNaN(at.getTime()) || at.getFullYear() > 9999 ? undefined : at.toISOString();
  };
  return { from: midnight(from, 0), to: midnight(to, 1) };
}
const isInstant = (bound: string): boolean => bound.endsWith("Z") && !Number.isNaN(Date.parse(bound));
/** The first and the last day that the fields of a filter show. `to` as an instant is the end of its day. */
export function daysOfFields(from = "", to = ""): { from: string; to: string } {
  const last = isInstant(to) ? dayForInput(new Date(Date.parse(to) - 1).toISOString()) : to;
  return { from: isInstant(from) ? dayForInput(from) : from, to: last };
}
export const day = (at: string): string => dateOnly.format(new Date(at));
const monthAndDay = new Intl.DateTimeFormat(LOCALE, { month: "short", day: "numeric", timeZone: "UTC" });
/** A UTC day such as `2026-03-01`, without its year. */
export const dayOfYear = (date: string): string => monthAndDay.format(new Date(date));

const relative = new Intl.RelativeTimeFormat(LOCALE, { numeric: "auto" });
/** "in 1 month": half a month more is not "next month" by the calendar. */
const counted = new Intl.RelativeTimeFormat(LOCALE, { numeric: "always" });
const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_557_600_000],
  ["month", 2_629_800_000],
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
];

/** The number of a calendar day in the browser's zone. */
const dayNumber = (date: Date): number => Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) / 86_400_000;

/** How far `at` is from `now`: "in 3 hours", "yesterday". It counts calendar days, as the date beside it does. */
export function ago(at: string, now = new Date()): string {
  const date = new Date(at);
  const ms = date.getTime() - now.getTime();
  const [unit, length] = STEPS.find(([, step]) => Math.abs(ms) >= step) ?? ["second", 1000];
  if (unit === "second" && Math.abs(ms) < 45_000) return "just now";
  if (unit === "day") return relative.format(dayNumber(date) - dayNumber(now), "day");
  return counted.format(Math.round(ms / length), unit);
}

/** The time between two instants: 850 ms, 12.4 s, 3 min 20 s. The unit `s` gives whole seconds, for a running timer. */
export function duration(from: string, to: string, unit: "ms" | "s" = "ms"): string {
  const ms = Math.max(0, Date.parse(to) - Date.parse(from));
  if (ms < 60_000 && unit === "s") return `${Math.floor(ms / 1000)} s`;
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1000)} s`;
}

/** The text with a capital first letter. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
/** `snake_case` as words, with a capital first letter. */
export const words = (name: string): string => capital(name.replaceAll("_", " "));

export const count = (amount: number, singular: string, plural = `${singular}s`): string =>
  `${number(amount)} ${amount === 1 ? singular : plural}`;

/** The fields of a form that differ from the saved ones. */
export function changedFields<Fields extends object>(before: Fields, after: Fields): Partial<Fields> {
  const is_changed = ([name, value]: [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(before[name as keyof Fields]);
  return Object.fromEntries(Object.entries(after).filter(is_changed)) as Partial<Fields>;
}

/** Splits text at commas, spaces and line breaks. */
export const toList = (text: string): string[] => text.split(/[\s,]+/).filter((entry) => entry !== "");
