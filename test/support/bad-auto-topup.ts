import { type BodyRow, invalid, missing } from "./bad-body.ts";

/** Bad settings of automatic top-ups: contract 5.9.1. */
export const AUTO_TOPUP: BodyRow = {
  valid: { enabled: false, threshold_tokens: 1, amount_cents: 100, monthly_cap_cents: 100 },
  bad: [
    ...missing("threshold_tokens", "amount_cents", "monthly_cap_cents"),
    // A record without amounts is sent back with them as null.
    [{ threshold_tokens: null }, "missing_field", "threshold_tokens"],
    [{ amount_cents: null }, "missing_field", "amount_cents"],
    [{ monthly_cap_cents: null }, "missing_field", "monthly_cap_cents"],
    ...invalid("enabled", "yes", null),
    ...invalid("threshold_tokens", 0, -1, 1.5, "all", 624_999_993_751),
    ...invalid("amount_cents", 99, 1.5, "100", 100_000_000),
    ...invalid("monthly_cap_cents", 99, 1.5, 2 ** 53),
  ],
};
