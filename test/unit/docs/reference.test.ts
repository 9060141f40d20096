import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { REFERENCE_FILE, referenceText } from "../../../docs/reference.ts";

it("docs/reference/api.md is up to date with the contract (npm run reference writes it)", async () => {
  expect(readFileSync(REFERENCE_FILE, "utf8")).toBe(await referenceText());
});
