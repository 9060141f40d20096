import { expect, it } from "vitest";
import { chargedRates, priceVersion } from "../../../src/completions/price-list.ts";

const rates = { input_rate_micro: 333_333, output_rate_micro: 1_000_001, cached_input_rate_micro: null };
const small = { id: "lab/small", ...rates };
const large = { id: "lab/large", ...rates, output_rate_micro: 4_000_000 };

it("names the same prices alike, in whatever order they come, and others otherwise", () => {
  const version = priceVersion([small, large]);
  expect(version).toMatch(/^[0-9a-f]{16}$/);
  expect(priceVersion([large, small])).toBe(version);
  for (const other of [
    [small],
    [small, { ...large, id: "lab/larger" }],
    [small, { ...large, input_rate_micro: 333_334 }],
    [small, { ...large, cached_input_rate_micro: 0 }],
  ]) {
    expect(priceVersion(other)).not.toBe(version);
  }
});

it("keeps a rate for cached input only where there is one", () => {
  expect(chargedRates(rates, "v")).toEqual({
    input_rate_micro: 333_333,
    output_rate_micro: 1_000_001,
    price_version: "v",
  });
  expect(chargedRates({ ...rates, cached_input_rate_micro: 0 }, "v")).toMatchObject({ cached_input_rate_micro: 0 });
});
