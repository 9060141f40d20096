import { afterAll, beforeAll, expect, it } from "vitest";
import { codeBlocks, runShell } from "../support/guides.ts";
import { ADMIN_KEY, type Service, startService } from "../support/service.ts";

// A reseller follows the guide: its examples, unchanged and in their order.

let service: Service;
beforeAll(async () => {
  service = await startService({ env: { PURSER_PAYMENTS: "sandbox" } });
});
afterAll(() => service.stop());

it("the examples of the guide for resellers work, and leave the customers, keys and ledger that they describe", async () => {
  const examples = codeBlocks("docs/guides/reselling.md", "sh");
  const stdout = await runShell(examples, { PURSER: service.url, PURSER_ADMIN_KEY: ADMIN_KEY });
  expect(stdout).toContain("acme@example.com: ");
  expect(stdout).toMatch(/^anna: 2 requests, \d+ tokens\nben: 1 requests, \d+ tokens$/m);
  expect(stdout).toMatch(/shop tokens.adjust invoice 17 was for 750,000 tokens/);
  expect(stdout.trim().endsWith("true"), "the audit").toBe(true);

  const { users } = (await service.admin.get("/api/v1/admin/users")).body;
  const [other, customer] = users;
  expect([other.email, other.balance.posted]).toEqual(["globex@example.com", 750_000]);
  const keys = (await service.admin.get(`/api/v1/admin/users/${customer.id}/api-keys`)).body.api_keys;
  const [replacement, lost] = keys;
  expect(lost).toMatchObject({ name: "production", budget_interval: "month", revoked_at: expect.any(String) });
  expect(replacement).toMatchObject({ name: "production", budget_tokens: 500_000, revoked_at: null });
  const [usage] = (await service.admin.get("/api/v1/admin/usage?group_by=user")).body.usage;
  expect(usage).toMatchObject({ user_id: customer.id, requests: 3, cost_tokens: lost.spent_tokens });
  const acts = (await service.admin.get(`/api/v1/admin/acts?user_id=${customer.id}`)).body.acts;
  expect(acts.map(({ what }: { what: string }) => what)).toEqual([
    ...["subscription.cancel", "api_key.create", "api_key.revoke", "api_key.create", "subscription.set", "user.create"],
  ]);
});
