import { expect, it } from "vitest";
import type { ApiKeyRow } from "../../../src/accounts/accounts.store.ts";
import { settingsAfter } from "../../../src/accounts/key-rules.ts";

const key = { name: "Shop", limits: { requests_per_minute: 5, tokens_per_minute: 9 } } as ApiKeyRow;

it("a change of one limit of a key leaves its others", () => {
  const { limits } = settingsAfter(key, { limits: { requests_per_minute: 6 } });
  expect(limits).toEqual({ requests_per_minute: 6, tokens_per_minute: 9 });
});

it("a key whose limits were all removed is stored without limits, so its calls are not counted", () => {
  const none = { requests_per_minute: null, tokens_per_minute: null };
  expect(settingsAfter(key, { limits: none }).limits).toBeNull();
  expect(settingsAfter(key, { limits: null }).limits).toBeNull();
});
