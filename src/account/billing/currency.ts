/** How amounts of a currency are counted. Every `*_cents` is a whole number of these units, as in Stripe's API. */

/**
 * Currencies that Stripe does not count in hundredths (docs.stripe.com/currencies). `Intl` is no source for this: it
 * shows Hungarian, Indonesian and other prices without decimals, but Stripe takes them in hundredths.
 */
const DIGITS = new Map<string, number>([
  ..."bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf".split(" ").map((code) => [code, 0] as const),
  ..."bhd iqd jod kwd lyd omr tnd".split(" ").map((code) => [code, 3] as const),
]);
/** Counted in hundredths, but only whole amounts can be charged. */
const WHOLE = new Set(["isk", "ugx"]);

/** The decimals of a currency (lower or upper case): 2 for dollars, 0 for yen, 3 for Kuwaiti dinars. */
export function currencyDigits(currency: string): number {
  return DIGITS.get(currency.toLowerCase()) ?? 2;
}

/** The smallest amount that can be paid, in units: card networks take no thousandths of a dinar and no parts of a króna. */
export function payableUnits(currency: string): number {
  if (WHOLE.has(currency.toLowerCase())) return 100;
  return currencyDigits(currency) === 3 ? 10 : 1;
}
