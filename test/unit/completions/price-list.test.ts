import { expect, it } from "vitest";
import { chargedRates } from "../../../src/gateway/completions/charge.ts";

const rates = {
  input_rate_micro: 333_333,
  cached_input_rate_micro: null,
  cache_write_rate_micro: null,
  cache_write_1h_rate_micro: null,
  output_rate_micro: 1_000_001,
};

it("has a rate for a class of input only if the model has one", () => {
  expect(chargedRates(rates, "v")).toEqual({
    input_rate_micro: 333_333,
    output_rate_micro: 1_000_001,
    price_version: "v",
  });
  const own = { cached_input_rate_micro: 0, cache_write_rate_micro: 1, cache_write_1h_rate_micro: 2 };
  expect(chargedRates({ ...rates, ...own }, "v")).toMatchObject(own);
});
