import type { Instant } from "../../platform/lib/instant.ts";

/** What a change costs, now and later. */
export interface Preview {
  /** The effect of choosing a plan; null for other changes. */
  change: "subscribe" | "upgrade" | "downgrade" | "keep" | null;
  due_now_cents: number;
  /** Granted once `due_now_cents` are paid. */
  tokens: number;
  currency: string;
  /** The payment that follows. `at` is null if it is a month after the first one, whose instant is not known yet. */
  next: { at: Instant | null; amount_cents: number } | null;
  /** The most that the overage of this period, or the automatic top-ups of this month, can cost. */
  most_cents: number | null;
}

export const NOTHING_DUE: Preview = {
  change: null,
  due_now_cents: 0,
  tokens: 0,
  currency: "usd",
  next: null,
  most_cents: null,
};
