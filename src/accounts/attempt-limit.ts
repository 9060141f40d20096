import { errors } from "../errors.ts";
import { createAllowances } from "../platform/allowance.ts";

interface Allowance {
  size: number;
  refill_s: number;
}

/**
 * Limits what clients try at an account: each client has an allowance of its own for each account, and all clients
 * together a larger one. So one client cannot lock the owner out, and many cannot guess without end. 429 with `message`.
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
