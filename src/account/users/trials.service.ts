import type { Tx } from "../../platform/db/db.ts";
import type { Cipher } from "../../platform/lib/cipher.ts";
import { insertMailbox } from "./trials.store.ts";

/**
 * Records which mailboxes had a trial, by keyed hash only. A trial is granted once per mailbox, also after its account
 * was erased. Owns `trial_mailbox`.
 */
export function createTrials({ cipher }: { cipher: Cipher }) {
  return {
    /** Uses the trial of the mailbox of `email`. Returns false when it was used before. */
    take(tx: Tx, email: string): Promise<boolean> {
      return insertMailbox(tx, cipher.fingerprint(Buffer.from(extractMailbox(email)), "trial"));
    },
  };
}

export type Trials = ReturnType<typeof createTrials>;

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
export function extractMailbox(email: string): string {
  const address = email.toLowerCase();
  const at = address.lastIndexOf("@");
  const domain = address.slice(at + 1);
  const [name = ""] = address.slice(0, at).split("+");
  const provider = PROVIDERS.find(({ domains }) => domains.includes(domain));
  return provider === undefined ? `${name}@${domain}` : `${provider.canonical(name)}@${provider.domains[0]}`;
}
