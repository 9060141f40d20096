import type { Db, Tx } from "../../platform/db/db.ts";

/** Does the work in a transaction that is rolled back, so a preview is the decision itself. Throws what the work throws. */
export async function dryRun<Result>(db: Db, work: (tx: Tx) => Promise<Result>): Promise<Result> {
  const undo = new Error("a dry run is rolled back");
  const results: Result[] = [];
  await db
    .transaction(async (tx) => {
      results.push(await work(tx));
      throw undo;
    })
    .catch((error: unknown) => {
      if (error !== undo) throw error;
    });
  return results.at(-1) as Result;
}
