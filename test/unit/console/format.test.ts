import { expect, test } from "vitest";
import { ago, centsOf, daysOfFields, money, period } from "../../../console/src/format.ts";

const local = (day: number, hour: number, month = 10) => new Date(2026, month, day, hour);

// 30 hours are a day and a quarter, but cross one or two midnights.
test.each([
  [local(24, 20), local(26, 2), "in 2 days"],
  [local(24, 2), local(25, 8), "tomorrow"],
  [local(26, 2), local(24, 20), "2 days ago"],
  [local(24, 20), local(23, 14), "yesterday"],
  [local(24, 20), local(25, 2), "in 6 hours"],
  [local(30, 12), local(14, 12, 12), "in 1 month"],
  [local(24, 20), local(24, 20), "just now"],
])("from %s the time %s is %s", (now, at, words) => {
  expect(ago(at.toISOString(), now)).toBe(words);
});

// German and other keyboards have a comma for the decimal point. "1,250" is an amount in English and another in German.
test.each([
  ["12.50", 1250],
  ["12,50", 1250],
  ["12,5", 1250],
  [" 10 ", 1000],
  ["0", 0],
  ["1,250", Number.NaN],
  ["1.250,00", Number.NaN],
  ["12.505", Number.NaN],
  ["-5", Number.NaN],
  ["1e3", Number.NaN],
  ["", Number.NaN],
])("typed dollars %j are %s cents", (typed, cents) => {
  expect(centsOf(typed)).toBe(cents);
});

// Stripe's units: hundredths, whole units, thousandths. ICU shows forints without decimals, but Stripe counts hundredths.
test.each([
  [1500, "usd", "$15.00"],
  [1550, "usd", "$15.50"],
  [7, "usd", "$0.07"],
  [0.012, "usd", "$0.00012"],
  [0, "usd", "$0.00"],
  [1500, "jpy", "¥1,500"],
  [1, "jpy", "¥1"],
  [0, "jpy", "¥0"],
  [-1500, "JPY", "-¥1,500"],
  [29_000, "krw", "₩29,000"],
  [9_900, "clp", "$9,900"],
  [1500, "kwd", "KWD 1.500"],
  [12_000, "kwd", "KWD 12.000"],
  [50, "bhd", "BHD 0.050"],
  [150_000, "isk", "kr 1,500.00"],
  [150_000, "ugx", "UGX 1,500.00"],
  [150_000, "huf", "Ft 1,500.00"],
  [150_050, "huf", "Ft 1,500.50"],
  [150_050, "twd", "$1,500.50"],
])("%s units of %s are shown as %s", (units, currency, shown) => {
  expect(money(units, currency).replaceAll("\u00a0", " ")).toBe(shown);
});

test("the days of a filter are those of the browser's zone, and the last day of a date field is no limit", () => {
  expect(period("2026-03-01", "2026-03-01")).toEqual({
    from: new Date(2026, 2, 1).toISOString(),
    to: new Date(2026, 2, 2).toISOString(),
  });
  expect(period(undefined, "9999-12-31")).toEqual({ from: undefined, to: undefined });
  expect(period("soon", "")).toEqual({ from: undefined, to: undefined });
});

test("a filter that a link gives as instants keeps them, and its fields show the days of the browser's zone", () => {
  const [from, to] = [new Date(2026, 2, 1).toISOString(), new Date(2026, 2, 3).toISOString()];
  expect(period(from, to)).toEqual({ from, to });
  expect(daysOfFields(from, to)).toEqual({ from: "2026-03-01", to: "2026-03-02" });
  expect(daysOfFields("2026-03-01", undefined)).toEqual({ from: "2026-03-01", to: "" });
});
