import { errors } from "../errors.ts";
import { createAllowances } from "../platform/allowance.ts";

interface Allowance {
  size: number;
  refill_s: number;
}

/**
 * Limits attempts at an account by a token bucket per client and account, and a larger one per account. So one client
 * cannot lock the owner out, and many clients cannot guess without limit. Throws 429 with `message`.
 */
export function createAttemptLimit(allowances: { by_client: Allowance; by_account: Allowance; message?: string }) {
  const by_client = createAllowances(allowances.by_client);
  const by_account = createAllowances(allowances.by_account);
  return ({ client, account }: { client: string; account: string }): void => {
    const { retry_after_s } = by_client.take(`${client} ${account}`);
    const wait_s = retry_after_s ?? by_account.take(account).retry_after_s;
    if (wait_s !== null) throw errors.rateLimited(wait_s, allowances.message);
  };
}
