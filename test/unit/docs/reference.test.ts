import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { referenceFiles } from "../../../docs/reference.ts";

it("docs/reference is up to date with the contract and the schema of the configuration file (npm run reference writes it)", async () => {
  for (const [path, text] of await referenceFiles()) expect(readFileSync(path, "utf8")).toBe(text);
});
