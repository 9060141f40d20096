import type { ChargedRates } from "../ledger/ledger.types.ts";
import type { ClassRates } from "../models/models.types.ts";

/** The rates that the ledger stores with a charge. A class without a rate of its own is left out. */
export function chargedRates(rates: ClassRates, price_version: string): ChargedRates {
  const { input_rate_micro, cached_input_rate_micro, cache_write_rate_micro, cache_write_1h_rate_micro } = rates;
  return {
    input_rate_micro,
    output_rate_micro: rates.output_rate_micro,
    ...(cached_input_rate_micro === null ? {} : { cached_input_rate_micro }),
    ...(cache_write_rate_micro === null ? {} : { cache_write_rate_micro }),
    ...(cache_write_1h_rate_micro === null ? {} : { cache_write_1h_rate_micro }),
    price_version,
  };
}
