/** Providers that deliver several spellings to one mailbox: the name of the domain, and characters that they ignore. */
const PROVIDERS = [
  // https://support.google.com/mail/answer/7436150: dots do not matter; googlemail.com is gmail.com
  { domains: ["gmail.com", "googlemail.com"], ignored: /\./g },
  // https://proton.me/support/addresses-and-aliases: dots, hyphens and underscores do not matter
  { domains: ["proton.me", "protonmail.com", "pm.me"], ignored: /[._-]/g },
];

/**
 * The mailbox that an address leads to, as far as the address tells: lower case, without `+tag`, and without characters
 * that its provider ignores. Two addresses of one mailbox are one person to limits and trials. Pure.
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
