import type { Cipher } from "../platform/cipher.ts";
import type { Db, Tx } from "../platform/db.ts";
import { createTrialsStore } from "./trials.store.ts";

const BACKLOG_BATCH = 1000;

/**
 * Records which mailboxes had a trial, by keyed hash only. A trial is granted once per mailbox, also after its account
 * was erased. Owns `trial_mailbox` and `trial_backlog`.
 */
export async function createTrials({ db, cipher }: { db: Db; cipher: Cipher }) {
  const store = createTrialsStore(db);
  const hashOf = (address: string) => cipher.fingerprint(Buffer.from(address), "trial");

  /** Hashes the addresses of users from before this table. It can be repeated after a crash. */
  const hashBacklog = async () => {
    while (await store.hasBacklog()) {
      await db.transaction(async (tx) => {
        const taken = await store.takeBacklog(tx, BACKLOG_BATCH);
        const hashes = taken.flatMap(({ email }) => (email === null ? [] : hashOf(mailboxOf(email))));
        await store.insertAll(tx, hashes);
      });
    }
  };
  await hashBacklog();

  return {
    /** Uses the trial of the mailbox of `email`. Returns false when it was used before. */
    async take(tx: Tx, email: string): Promise<boolean> {
      const [mailbox, ...others] = spellingsOf(email);
      // Earlier versions took some domains of a provider for several mailboxes.
      return (await store.insert(tx, hashOf(mailbox))) && !(await store.hasAny(tx, others.map(hashOf)));
    },
  };
}

export type Trials = Awaited<ReturnType<typeof createTrials>>;

/** Providers that deliver several spellings to one mailbox. The first domain represents all; `canonical` spells the name. */
const PROVIDERS = [
  // https://support.google.com/mail/answer/7436150: dots do not matter; googlemail.com is gmail.com
  { domains: ["gmail.com", "googlemail.com"], canonical: (name: string) => name.replaceAll(".", "") },
  // https://proton.me/support/addresses-and-aliases: dots, hyphens and underscores do not matter
  { domains: ["proton.me", "protonmail.com", "pm.me"], canonical: (name: string) => name.replaceAll(/[._-]/g, "") },
  // https://support.apple.com/118230: older accounts have one name in all three domains
  { domains: ["icloud.com", "me.com", "mac.com"], canonical: (name: string) => name },
  // https://www.yandex.com/support/mail/reg.html: an address has several domain aliases
  {
    domains: ["yandex.com", "yandex.ru", "ya.ru", "yandex.by", "yandex.kz", "yandex.ua"],
    canonical: (name: string) => name,
  },
];

/**
 * Returns the mailbox of an address: lower case, without `+tag` and in its provider's canonical spelling.
 * Limits and trials treat two addresses of one mailbox as one person. Pure.
 */
export function mailboxOf(email: string): string {
  return spellingsOf(email)[0];
}

/** The mailbox of an address, then the same name in the other domains of its provider. */
function spellingsOf(email: string): [string, ...string[]] {
  const address = email.toLowerCase();
  const at = address.lastIndexOf("@");
  const domain = address.slice(at + 1);
  const [name = ""] = address.slice(0, at).split("+");
  const provider = PROVIDERS.find(({ domains }) => domains.includes(domain));
  if (provider === undefined) return [`${name}@${domain}`];
  const [first, ...others] = provider.domains;
  const canonical = provider.canonical(name);
  return [`${canonical}@${first}`, ...others.map((other) => `${canonical}@${other}`)];
}
