/** Providers that deliver several spellings to one mailbox: the canonical domain and the ignored characters. */
const PROVIDERS = [
  // https://support.google.com/mail/answer/7436150: dots do not matter; googlemail.com is gmail.com
  { domains: ["gmail.com", "googlemail.com"], ignored: /\./g },
  // https://proton.me/support/addresses-and-aliases: dots, hyphens and underscores do not matter
  { domains: ["proton.me", "protonmail.com", "pm.me"], ignored: /[._-]/g },
];

/**
 * Returns the mailbox of an address: lower case, without `+tag` and without the characters that its provider ignores.
 * Limits and trials treat two addresses of one mailbox as one person. Pure.
 */
export function mailboxOf(email: string): string {
  const address = email.toLowerCase();
  const at = address.lastIndexOf("@");
  const domain = address.slice(at + 1);
  const [name = ""] = address.slice(0, at).split("+");
  const provider = PROVIDERS.find(({ domains }) => domains.includes(domain));
  if (provider === undefined) return `${name}@${domain}`;
  return `${name.replaceAll(provider.ignored, "")}@${provider.domains[0]}`;
}
