/** `units` × 10^−`decimals` as decimal text, exact and without zeros at its end. `units` is not negative. */
export function decimalText(units: bigint, decimals: number): string {
  const digits = units.toString().padStart(decimals + 1, "0");
  const [whole, fraction] = [digits.slice(0, -decimals), digits.slice(-decimals).replace(/0+$/, "")];
  return fraction === "" ? whole : `${whole}.${fraction}`;
}
