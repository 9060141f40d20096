import { archiveClosedMonths, closedBefore } from "../account/ledger/archive.service.ts";
import { createSystemClock } from "../platform/lib/clock.ts";
import { type Call, MisuseError, say } from "./command.ts";
import { openExisting } from "./existing.ts";
import { readStorage } from "./storage.ts";

/** `purser archive`: moves closed months of the ledger to files. */
export async function archive({ options }: Call): Promise<number> {
  const { to: folder } = options;
  const months = Number(options["older-than"]);
  // The current month and the one before it stay, because a process may still end their calls.
  if (!/^\d{1,4}$/.test(options["older-than"] ?? "") || months < 1) {
    throw new MisuseError("purser archive needs --older-than MONTHS, a whole number of 1 or more: --older-than 12");
  }
  if (folder === undefined) throw new MisuseError("purser archive needs --to FOLDER: --to /archive/purser");
  const { database_url, data_dir } = readStorage();
  const db = await openExisting({ database_url, data_dir });
  try {
    const until = closedBefore(createSystemClock().now(), months);
    const moved = await archiveClosedMonths({ db, folder, report: say }, until);
    say(
      moved.length === 0
        ? `nothing to move: no rows of before ${until}`
        : `moved ${moved.join(", ")} to ${folder}. Keep the files: purser audit --archive ${folder} checks them`,
    );
    return 0;
  } finally {
    await db.close();
  }
}
