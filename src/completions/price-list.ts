import { createHash } from "node:crypto";
import type { ChargedRates } from "../ledger/ledger.types.ts";
import type { Model, Rates } from "../models/models.types.ts";

/** Length of the SHA-256 prefix. It is enough to distinguish the price lists of one installation. */
const VERSION_CHARACTERS = 16;

/** The version of a price list. The same models at the same rates have the same version, in any order. */
export function priceVersion(models: readonly (Pick<Model, "id"> & Rates)[]): string {
  const lines = models.map(({ id, input_rate_micro, cached_input_rate_micro, output_rate_micro }) =>
    JSON.stringify([id, input_rate_micro, cached_input_rate_micro, output_rate_micro]),
  );
  return createHash("sha256").update(lines.sort().join("\n")).digest("hex").slice(0, VERSION_CHARACTERS);
}

/** The rates that the ledger stores with a charge. */
export function chargedRates(rates: Rates, price_version: string): ChargedRates {
  const { input_rate_micro, cached_input_rate_micro, output_rate_micro } = rates;
  const cached = cached_input_rate_micro === null ? {} : { cached_input_rate_micro };
  return { input_rate_micro, output_rate_micro, ...cached, price_version };
}
