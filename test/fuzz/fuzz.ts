import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";

// `npm run fuzz -- --requests 20000 [--seed 7] [--storage postgres|embedded]`: requests made from openapi.json, and a table
// of the answers by operation.

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: "20000" },
    seed: { type: "string", default: "4711" },
    storage: { type: "string", default: "postgres" },
  },
});
const env = { ...process.env, FUZZ_REQUESTS: values.requests, FUZZ_SEED: values.seed };
const file = "test/properties/api-fuzz.test.ts";
const args = ["vitest", "run", file, `--project=${values.storage}`, "--disableConsoleIntercept=true"];
const { status } = spawnSync("npx", args, { stdio: "inherit", env });
process.exit(status ?? 1);
