import { RESET_LINK_HOURS, SIGN_UP_LINK_HOURS } from "../../kernel/constants.ts";
import type { Mail } from "../../platform/net/mail.ts";

/** The mails of sign-up and sign-in. A token follows the `#`: browsers send it to no server and in no Referer. */

const mail = (to: string, subject: string, link: string, before: string, after: string): Mail => ({
  to,
  subject,
  link,
  text: `${before}\n\n${link}\n\n${after}\n`,
});

/** For a new sign-up: confirms the address. */
export function confirmationMail(to: string, url: string, token: string): Mail {
  return mail(
    to,
    "Confirm your e-mail address",
    `${url}/verify-email#token=${token}`,
    "A person, we hope you, signed up to Purser with this address. To confirm it and to set your password, open",
    `The link is good for ${SIGN_UP_LINK_HOURS} hours. If it was not you, do not open it: no account is made.`,
  );
}

/** For a sign-up with the address of an account: only the owner may learn that the account exists. */
export function knownAddressMail(to: string, url: string): Mail {
  return mail(
    to,
    "You have an account already",
    `${url}/sign-in`,
    "Somebody, we hope you, signed up to Purser with this address, which has an account already. To sign in, or to set a new password, open",
    "If it was not you, do nothing: nothing has changed.",
  );
}

/** For a password reset. */
export function resetMail(to: string, url: string, token: string): Mail {
  return mail(
    to,
    "Set a new password",
    `${url}/reset-password#token=${token}`,
    "Somebody, we hope you, asked for a new password for your Purser account. To set one, open",
    `The link is good for ${RESET_LINK_HOURS} hour and works once. If it was not you, do nothing: your password stays.`,
  );
}
