import { createHash } from "node:crypto";
import type { ChargedRates } from "../ledger/ledger.types.ts";
import type { Model, Rates } from "../models/models.types.ts";

/** Of SHA-256: enough to tell the price lists of one installation apart. */
const VERSION_CHARACTERS = 16;

/** Names a price list: the same models at the same rates have the same version, in whatever order they come. */
export function priceVersion(models: readonly (Pick<Model, "id"> & Rates)[]): string {
  const lines = models.map(({ id, input_rate_micro, cached_input_rate_micro, output_rate_micro }) =>
    JSON.stringify([id, input_rate_micro, cached_input_rate_micro, output_rate_micro]),
  );
  return createHash("sha256").update(lines.sort().join("\n")).digest("hex").slice(0, VERSION_CHARACTERS);
}

/** The rates that the ledger keeps of a charge. */
export function chargedRates(rates: Rates, price_version: string): ChargedRates {
  const { input_rate_micro, cached_input_rate_micro, output_rate_micro } = rates;
  const cached = cached_input_rate_micro === null ? {} : { cached_input_rate_micro };
  return { input_rate_micro, output_rate_micro, ...cached, price_version };
}
