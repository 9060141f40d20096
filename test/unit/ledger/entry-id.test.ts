import { expect, test } from "vitest";
import { entryId } from "../../../src/account/ledger/entry-id.ts";

const hash = "0123456789abcdef".repeat(4);

test("an entry's id is a UUIDv7 of its time, and differs for another hash", () => {
  const id = entryId({ created_at: "2026-03-01T12:00:00.123Z", hash });
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(Number.parseInt(id.replace("-", "").slice(0, 12), 16)).toBe(Date.parse("2026-03-01T12:00:00.123Z"));
  expect(entryId({ created_at: "2026-03-01T12:00:00.123Z", hash: `f${hash.slice(1)}` })).not.toBe(id);
});
