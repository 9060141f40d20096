import { makeZip } from "client-zip";
import { entriesHead, entryLines, usageHead, usageLines } from "../../account/ledger/export-file.ts";
import type { Ledger } from "../../account/ledger/ledger.types.ts";
import { errors } from "../../kernel/errors.ts";
import type { Db } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { readWithin } from "../../platform/lib/read-within.ts";
import { exportFiles } from "./user-export.store.ts";

/** Exports at the same time: of this node, and of one user on it. Each occupies a database connection by turns. */
const MAX_EXPORTS = 4;
const MAX_OF_USER = 1;
const RETRY_S = 30;
/** Usage is kept as long as the account, so this is longer than any account exists. */
const ALL_DAYS = 36_500;

interface UserExportDeps {
  db: Db;
  clock: Clock;
  ledger: Pick<Ledger, "allEntries" | "usageLines">;
  stalled_ms?: number;
}

/** A user's data as a ZIP of JSON Lines and CSV files. */
export function createUserExport({ db, clock, ledger, stalled_ms }: UserExportDeps) {
  const running = new Map<string, number>();

  async function* readFiles(user_id: string) {
    const lastModified = clock.now();
    for (const { name, parts } of exportFiles(db, user_id)) yield { name, input: parts, lastModified };
    const entries = ledger.allEntries(user_id, {});
    const lines = ledger.usageLines(user_id, ALL_DAYS);
    yield {
      name: "transactions.csv",
      input: csv(entriesHead, entries, (part) => entryLines(user_id, part)),
      lastModified,
    };
    yield { name: "usage.csv", input: csv(usageHead, lines, usageLines), lastModified };
  }

  /** The answer with the file. Throws 503 while too many exports are running. It is streamed. */
  return function exportUser(user_id: string): Response {
    const of_user = running.get(user_id) ?? 0;
    const all = [...running.values()].reduce((sum, count) => sum + count, 0);
    if (of_user >= MAX_OF_USER || all >= MAX_EXPORTS) throw errors.overloaded(RETRY_S);
    running.set(user_id, of_user + 1);
    let is_over = false;
    const over = () => {
      if (!is_over) running.delete(user_id);
      is_over = true;
    };
    const body = readWithin(makeZip(readFiles(user_id)), { stalled_ms, over });
    const name = `purser-export-${clock.now().slice(0, 10)}.zip`;
    const headers = {
      "Content-Type": "application/zip",
      "Content-Disposition": `attachment; filename="${name}"`,
      "Cache-Control": "no-store",
    };
    return new Response(body, { headers });
  };
}

export type ExportOf = ReturnType<typeof createUserExport>;

async function* csv<Part>(head: string, parts: AsyncIterable<Part>, linesOf: (part: Part) => string) {
  yield head;
  for await (const part of parts) yield linesOf(part);
}
