import { RESET_LINK_HOURS, SIGN_UP_LINK_HOURS } from "../constants.ts";
import type { SignedIn } from "../contract/sign-in.ts";
import { errors } from "../errors.ts";
import { createAllowances } from "../platform/allowance.ts";
import { addSeconds, type Clock } from "../platform/clock.ts";
import type { Db, Tx } from "../platform/db.ts";
import { newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import type { Mail, Mailer } from "../platform/mail.ts";
import type { Passwords } from "./password.ts";
import { hashToken, newToken } from "./secret-token.ts";
import { createSessions } from "./sessions.ts";
import { createSignInStore } from "./sign-in.store.ts";
import { confirmationMail, knownAddressMail, resetMail } from "./sign-in-mail.ts";

export interface SignInOptions {
  db: Db;
  clock: Clock;
  log: Log;
  mailer: Mailer;
  passwords: Passwords;
  /** Where mailed links lead: an origin. */
  url(): string;
  signup: "open" | "closed";
  verification: "link" | "none";
  /** Opens the account of a new user, with the trial, in the same transaction. */
  openAccount(tx: Tx, user_id: string): Promise<void>;
}

/** What begins a session: `token` is for the cookie, the rest for the page. */
export interface Begun {
  token: string;
  signed_in: SignedIn;
}

interface Credentials {
  email: string;
  password: string;
}

/** Tries at one account's password, whoever makes them. NIST SP 800-63B, 5.2.2: at most 100. */
const TRIES = { size: 30, refill_s: 3600 };
/** Nobody's mailbox is filled by others. */
const MAILS = { size: 5, refill_s: 3600 };
const HOUR_S = 3600;

/** Sign-up, sign-in, password and sessions of people. Owns `password`, `session`, `sign_up` and `password_reset`. */
export async function createSignIn(options: SignInOptions) {
  const { db, clock, log, mailer, passwords, url } = options;
  const store = createSignInStore(db);
  const sessions = await createSessions({ db, clock, store });
  const tries = createAllowances(TRIES);
  const mails = createAllowances(MAILS);
  const background = new Set<Promise<void>>();

  /** After the answer, so that the time it takes does not tell whether an address has an account. */
  const later = (work: () => Promise<void>) => {
    const done = work()
      .catch((error: Error) => log.error({ error: error.message }, "a link was not sent"))
      .finally(() => background.delete(done));
    background.add(done);
  };
  const mailOnce = async (to: string, prepare: () => Promise<Mail | null>) => {
    if (mails.take(to).retry_after_s !== null) return;
    const mail = await prepare();
    if (mail !== null) mailer.send(mail);
  };

  const refuseClosed = () => {
    if (options.signup === "closed") throw errors.signupClosed();
  };
  const limitTries = (email: string) => {
    const { retry_after_s } = tries.take(email);
    if (retry_after_s !== null) throw errors.rateLimited(retry_after_s);
  };
  const begin = async (tx: Tx, user: { id: string; email: string }, password_hash: string): Promise<Begun> => {
    const begun = await sessions.begin(tx, user, password_hash);
    if (begun === null) throw errors.invalidCredentials();
    return begun;
  };
  const makeUser = async (tx: Tx, email: string, hash: string): Promise<Begun> => {
    const user = { id: newId(), email, created_at: clock.now() };
    if (!(await store.insertUser(tx, user))) throw errors.emailTaken();
    await store.setPassword(tx, { user_id: user.id, hash, now: user.created_at });
    await options.openAccount(tx, user.id);
    return begin(tx, user, hash);
  };
  /** What a new password ends: every session, and the links that would set another. */
  const renewPassword = async (tx: Tx, user: { id: string; email: string }, hash: string): Promise<Begun> => {
    await store.setPassword(tx, { user_id: user.id, hash, now: clock.now() });
    await sessions.endAll(tx, user.id);
    await store.deleteResets(tx, user.id);
    return begin(tx, user, hash);
  };
  /** Who is signed in and knows the password too: 400 with `param` current_password when that is wrong. */
  const prove = async (token: string, current_password: string) => {
    const { user } = await sessions.who(token);
    limitTries(user.email);
    const current = (await store.personById(user.id, db))?.password_hash ?? null;
    if (!(await passwords.matches(current_password, current))) {
      throw errors.invalidValue("current_password", "This is not your present password. Try again, or reset it.");
    }
    return user;
  };
  const prepareSignUp = async (email: string, password_hash: string): Promise<Mail> => {
    if ((await store.personByEmail(email)) !== undefined) return knownAddressMail(email, url());
    const { token, token_hash } = newToken();
    const expires_at = addSeconds(clock.now(), SIGN_UP_LINK_HOURS * HOUR_S);
    await store.insertSignUp({ token_hash, email, password_hash, expires_at });
    return confirmationMail(email, url(), token);
  };
  const prepareReset = async (email: string): Promise<Mail | null> => {
    const person = await store.personByEmail(email);
    if (person === undefined) return null;
    const { token, token_hash } = newToken();
    const expires_at = addSeconds(clock.now(), RESET_LINK_HOURS * HOUR_S);
    await store.insertReset({ token_hash, user_id: person.id, expires_at });
    return resetMail(email, url(), token);
  };

  return {
    signup: options.signup,
    verification: options.verification,
    delivery: mailer.delivery,
    authenticate: sessions.authenticate,
    who: sessions.who,
    signOut: sessions.end,
    prove,

    /** A new user, signed in, where sign-ups need no verification; else null, and a link is on its way. */
    async signUp({ email, password }: Credentials): Promise<Begun | null> {
      refuseClosed();
      const hash = await passwords.hash(password);
      if (options.verification === "none") return db.transaction((tx) => makeUser(tx, email, hash));
      later(() => mailOnce(email, () => prepareSignUp(email, hash)));
      return null;
    },
    /** Makes the user whose sign-up `token` is of. 400 when the link is used up or too old. */
    async verifyEmail(token: string): Promise<Begun> {
      refuseClosed();
      const token_hash = hashToken(token);
      if (token_hash === null) throw deadLink();
      return db.transaction(async (tx) => {
        const taken = await store.takeSignUp(tx, token_hash, clock.now());
        if (taken === undefined) throw deadLink();
        return makeUser(tx, taken.email, taken.password_hash);
      });
    },
    /** 401 for a wrong password and an unknown address alike. */
    async signIn({ email, password }: Credentials): Promise<Begun> {
      limitTries(email);
      const person = await store.personByEmail(email);
      const hash = person?.password_hash ?? null;
      const matches = await passwords.matches(password, hash);
      if (person === undefined || hash === null || !matches) throw errors.invalidCredentials();
      if (person.suspended_at !== null) throw errors.accountSuspended();
      return db.transaction((tx) => begin(tx, person, hash));
    },
    /** Sends a link if there is such a user, who may never have had a password. */
    requestPasswordReset(email: string): void {
      later(() => mailOnce(email, () => prepareReset(email)));
    },
    /** 400 when the link is used up or too old. The address is proved by it, and the account stays as it is. */
    async resetPassword(token: string, new_password: string): Promise<Begun> {
      const token_hash = hashToken(token);
      if (token_hash === null) throw deadLink();
      const hash = await passwords.hash(new_password);
      return db.transaction(async (tx) => {
        const user_id = await store.takeReset(tx, token_hash, clock.now());
        const person = user_id === undefined ? undefined : await store.personById(user_id, tx);
        if (person === undefined) throw deadLink();
        if (person.suspended_at !== null) throw errors.accountSuspended();
        return renewPassword(tx, person, hash);
      });
    },
    /** 400 with `param` current_password when that is wrong. */
    async changePassword(token: string, current_password: string, new_password: string): Promise<Begun> {
      const user = await prove(token, current_password);
      const hash = await passwords.hash(new_password);
      return db.transaction((tx) => renewPassword(tx, user, hash));
    },
    async signOutEverywhere(token: string): Promise<void> {
      const { user } = await sessions.who(token);
      await sessions.endAll(db, user.id);
    },

    /** Forgets how an erased user signed in. */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      await store.deletePassword(tx, user_id);
      await sessions.endAll(tx, user_id);
      await store.deleteResets(tx, user_id);
    },
    /** Deletes what has expired; called now and then. */
    sweep: () => store.sweep(clock.now()),
    /** Waits for what is being prepared. */
    async close(): Promise<void> {
      await Promise.all(background);
      await sessions.close();
    },
  };
}

export type SignIn = Awaited<ReturnType<typeof createSignIn>>;

const deadLink = () =>
  errors.invalidValue("token", "This link was used already or is too old. Ask for a new one and open the latest.");
