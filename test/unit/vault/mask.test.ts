import { expect, test } from "vitest";
import { maskValue, VENDOR_PREFIXES } from "../../../src/vault/vault.service.ts";

const HIDDEN = "••••••••";

// litellm#30764, openclaw#34586: a mask of a short secret must not show it.
test.each<[string, string, string]>([
  ["one character", "x", HIDDEN],
  ["19 characters", "a".repeat(19), HIDDEN],
  ["19 characters of more bytes", "é".repeat(19), HIDDEN],
  ["a short key of a vendor", "sk_live_abcdefghijk", HIDDEN],
  ["20 characters", `${"a".repeat(16)}WXYZ`, `${HIDDEN}WXYZ`],
  ["20 characters beyond the basic plane", "😀".repeat(20), `${HIDDEN}${"😀".repeat(4)}`],
  ["Stripe", "sk_live_abcdefghijklmnopWXYZ", `sk_live_${HIDDEN}WXYZ`],
  ["OpenAI, of a project", "sk-proj-abcdefghijklmnopWXYZ", `sk-proj-${HIDDEN}WXYZ`],
  ["GitHub", "ghp_abcdefghijklmnopqrstuvwxyz0123456789", `ghp_${HIDDEN}6789`],
  ["AWS", "AKIAIOSFODNN7EXAMPLE", `AKIA${HIDDEN}MPLE`],
  ["a long prefix of a short key", "github_pat_123456789", `${HIDDEN}6789`],
  ["several lines", `first line of text\nsecond line`, HIDDEN],
  ["a line break at the end", `${"a".repeat(30)}\n`, HIDDEN],
  ["PEM in one line", "-----BEGIN PRIVATE KEY-----MIIEvQIBADANBg-----END PRIVATE KEY-----", HIDDEN],
  ["a JSON object", '{"user": "ada", "password": "hunter2"}', HIDDEN],
  ["a JSON array", ' ["hunter2hunter2hunter2"]', HIDDEN],
  ["a JSON string", '"hunter2hunter2hunter2"', HIDDEN],
])("%s: %s is shown as %s", (_, value, mask) => {
  expect(maskValue(value)).toBe(mask);
});

test("no prefix takes the place of a longer one", () => {
  for (const [index, prefix] of VENDOR_PREFIXES.entries()) {
    const hiding = VENDOR_PREFIXES.slice(0, index).filter((earlier) => prefix.startsWith(earlier));
    expect(hiding, prefix).toEqual([]);
  }
});
