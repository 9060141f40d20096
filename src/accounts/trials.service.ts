import type { Cipher } from "../platform/cipher.ts";
import type { Db, Tx } from "../platform/db.ts";
import { mailboxOf } from "./mailbox.ts";
import { createTrialsStore } from "./trials.store.ts";

const BACKLOG_BATCH = 1000;

/**
 * Records which mailboxes had a trial, by keyed hash only. A trial is granted once per mailbox, also after its account
 * was erased. Owns `trial_mailbox` and `trial_backlog`.
 */
export async function createTrials({ db, cipher }: { db: Db; cipher: Cipher }) {
  const store = createTrialsStore(db);
  const hashOf = (email: string) => cipher.fingerprint(Buffer.from(mailboxOf(email)), "trial");

  /** Hashes the addresses of users from before this table. It can be repeated after a crash. */
  const hashBacklog = async () => {
    while (await store.hasBacklog()) {
      await db.transaction(async (tx) => {
        const taken = await store.takeBacklog(tx, BACKLOG_BATCH);
        const hashes = taken.flatMap(({ email }) => (email === null ? [] : hashOf(email)));
        await store.insertAll(tx, hashes);
      });
    }
  };
  await hashBacklog();

  return {
    /** Uses the trial of the mailbox of `email`. Returns false when it was used before. */
    take: (tx: Tx, email: string): Promise<boolean> => store.insert(tx, hashOf(email)),
  };
}

export type Trials = Awaited<ReturnType<typeof createTrials>>;
