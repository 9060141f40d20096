import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import { postgresBinaries } from "./support/postgres-server.ts";

// `npm run properties -- --ops 50000 [--seed 7]`: the ledger's model-based test, long, on both storages in turn.

const options = { ops: { type: "string", default: "50000" }, seed: { type: "string" } } as const;
const { ops, seed } = parseArgs({ options }).values;
const env = { ...process.env, PROPERTY_OPS: ops, ...(seed === undefined ? {} : { PROPERTY_SEED: seed }) };
const storages = postgresBinaries() === null ? ["embedded"] : ["embedded", "postgres"];
for (const storage of storages) {
  const args = ["vitest", "run", `--project=${storage}`, "test/properties/ledger-random.test.ts"];
  const { status } = spawnSync("npx", args, { stdio: "inherit", env });
  if (status !== 0) process.exit(status ?? 1);
}
