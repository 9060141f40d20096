import { expect, it } from "vitest";
import type { ApiKeyRow, KeySettings } from "../../../src/account/users/accounts.store.ts";
import { isBroader, refuseBroader, settingsAfter } from "../../../src/account/users/key-rules.ts";
import type { Caller } from "../../../src/api/contract/caller.ts";

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

const LIMITED: KeySettings = {
  name: "Shop",
  budget_tokens: 100,
  budget_interval: "week",
  allowed_models: ["a"],
  limits: { requests_per_minute: 5 },
  expires_at: "2026-02-01T00:00:00.000Z",
};

it.each<[string, Partial<KeySettings>, boolean]>([
  ["the same settings", {}, false],
  ["a larger budget", { budget_tokens: 101 }, true],
  ["no budget", { budget_tokens: null, budget_interval: null }, true],
  ["a budget that starts again more often", { budget_interval: "day" }, true],
  ["a budget that starts again less often", { budget_interval: "month" }, false],
  ["a budget that never starts again", { budget_interval: null }, false],
  ["another model", { allowed_models: ["a", "b"] }, true],
  ["every model", { allowed_models: null }, true],
  ["fewer models", { allowed_models: [] }, false],
  ["a higher limit", { limits: { requests_per_minute: 6 } }, true],
  ["no limits", { limits: null }, true],
  ["a later end", { expires_at: "2026-02-01T00:00:00.001Z" }, true],
  ["no end", { expires_at: null }, true],
  ["an earlier end", { expires_at: "2026-01-31T00:00:00.000Z" }, false],
])("%s: the key is broader: %j", (_name, change, is_broader) => {
  expect(isBroader({ ...LIMITED, ...change }, LIMITED)).toBe(is_broader);
});

it.each<[string, Partial<ApiKeyRow>]>([
  ["a budget", { budget_tokens: 100 }],
  ["allowed models", { allowed_models: ["a"] }],
  ["limits", { limits: { requests_per_minute: 5 } }],
])("a key with %s creates no key, because both together could use more", (_name, limit) => {
  const own = { budget_tokens: null, allowed_models: null, limits: null, expires_at: null, ...limit } as ApiKeyRow;
  const caller = { scopes: ["agents:read"] } as unknown as Caller;
  expect(() => refuseBroader(caller, own, { name: "child", scopes: [] })).toThrow(
    expect.objectContaining({ code: "budgeted_key" }),
  );
});
