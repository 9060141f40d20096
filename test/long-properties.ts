import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import { postgresBinaries } from "./support/postgres-server.ts";

// `npm run properties -- --ops 50000 [--seed 7] [--storage postgres|embedded]`: the ledger's model-based test, long, on
// one storage, or on both in turn.

const { values } = parseArgs({
  options: { ops: { type: "string", default: "50000" }, seed: { type: "string" }, storage: { type: "string" } },
});
const { ops, seed, storage } = values;
const env = { ...process.env, PROPERTY_OPS: ops, ...(seed === undefined ? {} : { PROPERTY_SEED: seed }) };
const here = postgresBinaries() === null ? ["embedded"] : ["embedded", "postgres"];
const storages = storage === undefined ? here : [storage];
for (const project of storages) {
  const file = "test/properties/ledger-random.test.ts";
  const args = ["vitest", "run", file, `--project=${project}`, "--disableConsoleIntercept=true"];
  const { status } = spawnSync("npx", args, { stdio: "inherit", env });
  if (status !== 0) process.exit(status ?? 1);
}
