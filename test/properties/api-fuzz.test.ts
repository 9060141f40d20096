import { expect, inject, test } from "vitest";
import { type FuzzOutcome, fuzz, statusTable } from "../fuzz/fuzz-run.ts";

// `npm run fuzz -- --requests 20000 --seed 7` for a long run.

const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? 300);
const SEED = Number(process.env.FUZZ_SEED ?? 4_711);
const IS_LONG = process.env.FUZZ_REQUESTS !== undefined;
const MS_PER_REQUEST = 1_000;
const FAULTS_SHOWN = 40;

// Both storages answer alike. A long run may use either.
test.runIf(IS_LONG || inject("storage").kind === "postgres")(
  `${REQUESTS} requests made from openapi.json (seed ${SEED}): no 5xx, no answer outside its schema, no hang`,
  async () => {
    const began = performance.now();
    const elapsed = () => Math.round((performance.now() - began) / 1000);
    const onProgress = (sent: number, { faults }: FuzzOutcome) => {
      const last = faults.at(-1);
      const shown = last === undefined ? "" : `, the last: ${last.fault}`;
      if (IS_LONG) console.log(`${sent} requests, ${faults.length} faults, ${elapsed()} s${shown}`);
    };
    const outcome = await fuzz({ count: REQUESTS, seed: SEED, onProgress });
    const faults = outcome.faults.map(({ request, fault }) => `${fault}\n    ${request}`);
    if (IS_LONG) {
      const seconds = elapsed();
      console.log(statusTable(outcome));
      console.log(
        `${REQUESTS} requests, seed ${SEED}, ${seconds} s: ${faults.length} faults, ${outcome.limited} at a limit`,
      );
    }
    expect(faults.slice(0, FAULTS_SHOWN).join("\n"), `seed ${SEED}`).toBe("");
  },
  Math.max(120_000, REQUESTS * MS_PER_REQUEST),
);
