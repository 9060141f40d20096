import { PURCHASE_CENTS, TOKENS_PER_CENT } from "../constants.ts";
import { errors } from "../errors.ts";

/** What a top-up costs and grants. */
export interface PurchasePrice {
  amount_cents: number;
  tokens: number;
}

/**
 * The price of a top-up that is asked for in cents or in tokens. Tokens that are not whole cents round the price up, and
 * exactly the tokens that were asked for are granted. 400 below the least or above the most that can be bought, and
 * when neither or both are given.
 */
export function purchasePrice(wanted: {
  amount_cents?: number | undefined;
  tokens?: number | undefined;
}): PurchasePrice {
  const { amount_cents, tokens } = wanted;
  if (amount_cents !== undefined && tokens !== undefined) {
    throw errors.invalidValue("tokens", "Give amount_cents or tokens, not both: each says what the other would be.");
  }
  if (amount_cents !== undefined)
    return checked("amount_cents", { amount_cents, tokens: amount_cents * TOKENS_PER_CENT });
  if (tokens !== undefined) return checked("tokens", { amount_cents: Math.ceil(tokens / TOKENS_PER_CENT), tokens });
  throw errors.missingField("amount_cents");
}

function checked(param: "amount_cents" | "tokens", price: PurchasePrice): PurchasePrice {
  const { min, max } = PURCHASE_CENTS;
  if (price.amount_cents >= min && price.amount_cents <= max) return price;
  const unit = param === "tokens" ? TOKENS_PER_CENT : 1;
  throw errors.invalidValue(
    param,
    `A purchase is ${min} to ${max} cents: give ${param} between ${min * unit} and ${max * unit}.`,
  );
}
