import type { SignedIn, SignedUp } from "../../api/contract/sign-in.ts";
import { RESET_LINK_HOURS, SIGN_UP_LINK_HOURS } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import { addSeconds, type Clock } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { createTokenBuckets } from "../../platform/lib/token-bucket.ts";
import type { Mail } from "../../platform/net/mail.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import { userErrors } from "./errors.ts";
import type { Passwords } from "./password.ts";
import { createSessions } from "./sessions.ts";
import { createSignInStore, type NewPassword, type Person } from "./sign-in.store.ts";
import { confirmationMail, knownAddressMail, resetMail } from "./sign-in-mail.ts";
import { ALL_BUCKETS, hashToken, newToken, type RoutingBuckets } from "./tokens.ts";
import { extractMailbox } from "./trials.service.ts";

export interface SignInOptions {
  db: Db;
  clock: Clock;
  log: Log;
  mails: LinkMails;
  passwords: Passwords;
  /** The origin that mailed links point to. */
  url(): string;
  signup: "open" | "closed";
  verification: "link" | "none";
  /** The buckets of new users' keys and sessions. Default: all. */
  routing_buckets?: RoutingBuckets;
  /** Opens the account of a new user in the same transaction. Returns whether it has a trial. */
  openAccount(tx: Tx, user: { id: string; email: string }): Promise<SignedUp["trial"]>;
}

/** Sends mails with links, and repeats them until the mail server takes them. */
interface LinkMails {
  /** log: no mail server is set, so the links are written to the log. */
  readonly delivery: "mail" | "log";
  /** Sends the mail after the commit. `valid_s`: how long its link is good for. */
  send(tx: Tx, mail: Mail & { user_id: string | null; valid_s: number }): Promise<void>;
  /** Deletes the mails to this address that are not sent yet. */
  forgetAddress(tx: Tx, email: string): Promise<void>;
}

/** The result of starting a session: `token` is for the cookie, the rest for the page. */
export interface Begun {
  token: string;
  signed_in: SignedIn;
}

/** The result of starting a new user's first session. */
interface SignedUpBegun extends Begun {
  signed_in: SignedUp;
}

type Hashed = Pick<NewPassword, "hash" | "proven_email">;
type NewUser = Hashed & { email: string };

interface Credentials {
  email: string;
  password: string;
  /** The network address of the client, for limits. */
  client: string;
}

/** Attempts at one account's password. NIST SP 800-63B, 5.2.2: at most 100. */
const TRIES = { by_client: { size: 30, refill_s: 3600 }, by_account: { size: 100, refill_s: 3600 } };
/** Mails of one kind to one mailbox, so that strangers cannot fill it. */
const MAILS = {
  by_client: { size: 5, refill_s: 3600 },
  by_account: { size: 20, refill_s: 3600 },
  message: "No mail was sent: this address was asked for too often. Retry after the time in Retry-After.",
};
const HOUR_S = 3600;

/** Sign-up, sign-in, password and sessions of people. Owns `password`, `session`, `sign_up` and `password_reset`. */
export async function createSignIn(options: SignInOptions) {
  const { db, clock, log, mails, passwords, url } = options;
  const store = createSignInStore(db);
  const { routing_buckets = ALL_BUCKETS } = options;
  const sessions = await createSessions({ db, clock, store, routing_buckets });
  const limitTries = createAttemptLimit(TRIES);
  const limitProofs = createAttemptLimit(TRIES);
  const limitSignUpMails = createAttemptLimit(MAILS);
  const limitResetMails = createAttemptLimit(MAILS);
  const background = new Set<Promise<void>>();

  /** Runs after the answer, so that its time does not show whether an address has an account. */
  const later = (work: () => Promise<void>) => {
    const done = work()
      .catch((error: Error) => log.error({ error }, "a link was not sent: its user may ask for another one"))
      .finally(() => background.delete(done));
    background.add(done);
  };

  const refuseClosed = () => {
    if (options.signup === "closed") throw userErrors.signupClosed();
  };
  const begin = async (tx: Tx, user: { id: string; email: string }, password_hash: string): Promise<Begun> => {
    const begun = await sessions.begin(tx, user, password_hash);
    if (begun === null) throw userErrors.invalidCredentials();
    return begun;
  };
  /** The address that a used link proves. None without a mail server: the operator read the link in the log and handed it on. */
  const provenByLink = (email: string) => (mails.delivery === "mail" ? email : null);
  const makeUser = async (tx: Tx, { email, ...password }: NewUser): Promise<SignedUpBegun> => {
    const user = { id: newId(), email, created_at: clock.now() };
    if (!(await store.insertUser(tx, user))) throw userErrors.emailTaken();
    await store.setPassword(tx, { user_id: user.id, now: user.created_at, ...password });
    const trial = await options.openAccount(tx, user);
    const { token, signed_in } = await begin(tx, user, password.hash);
    return { token, signed_in: { ...signed_in, trial } };
  };
  /** A new password ends every session and all links that would set another password. */
  const renewPassword = async (tx: Tx, user: Pick<Person, "id" | "email">, password: Hashed): Promise<Begun> => {
    await store.setPassword(tx, { user_id: user.id, now: clock.now(), ...password });
    await sessions.endAll(tx, user.id);
    await store.deleteResets(tx, user.id);
    return begin(tx, user, password.hash);
  };
  /** Returns the signed-in user after a password check. Throws 400 with `param` when it is wrong. */
  const prove = async (token: string, current_password: string, param = "current_password") => {
    const { user } = await sessions.who(token);
    // Counted separately from sign-ins: strangers without the session cannot use up these attempts.
    limitProofs({ client: "session", account: user.id });
    const current = (await store.personById(user.id, db))?.password_hash ?? null;
    if (!(await passwords.matches(current_password, current))) {
      throw errors.invalidValue(param, "This is not your present password. Try again, or reset it.");
    }
    return user;
  };
  /** Does the same work for each address, so that its time does not show whether an account exists. */
  const mailSignUp = async (email: string): Promise<void> => {
    const known = await store.personByEmail(email);
    const { token, token_hash } = newToken();
    const valid_s = SIGN_UP_LINK_HOURS * HOUR_S;
    const mail = known === undefined ? confirmationMail(email, url(), token) : knownAddressMail(email, url());
    await db.transaction(async (tx) => {
      await store.insertSignUp(tx, { token_hash, email, expires_at: addSeconds(clock.now(), valid_s) });
      await mails.send(tx, { ...mail, user_id: known?.id ?? null, valid_s });
    });
  };
  const mailReset = async (email: string): Promise<void> => {
    const person = await store.personByEmail(email);
    if (person === undefined) return;
    const { token, token_hash } = newToken();
    const valid_s = RESET_LINK_HOURS * HOUR_S;
    await db.transaction(async (tx) => {
      const expires_at = addSeconds(clock.now(), valid_s);
      await store.insertReset(tx, { token_hash, user_id: person.id, expires_at });
      await mails.send(tx, { ...resetMail(email, url(), token), user_id: person.id, valid_s });
    });
  };

  return {
    signup: options.signup,
    verification: options.verification,
    delivery: mails.delivery,
    authenticate: sessions.authenticate,
    authenticateOperator: sessions.authenticateOperator,
    who: sessions.who,
    signOut: sessions.end,
    prove,

    /**
     * Creates a user and signs them in if sign-ups need no verification. Otherwise it sends a mail and returns null.
     * The mail's link asks for the password, so only the reader of the mailbox chooses it. Throws 429 if no mail was sent.
     */
    async signUp(wanted: Omit<Credentials, "password"> & { password?: string | undefined }) {
      refuseClosed();
      const { email, password, client } = wanted;
      if (options.verification === "none") {
        if (password === undefined) throw errors.missingField("password");
        const hash = await passwords.hash(password);
        return db.transaction((tx) => makeUser(tx, { email, hash, proven_email: null }));
      }
      limitSignUpMails({ client, account: extractMailbox(email) });
      await mailSignUp(email);
      return null;
    },
    /** Creates the user of a sign-up link, with their password. Throws 400 when the link was used or has expired. */
    async verifyEmail(token: string, password: string): Promise<SignedUpBegun> {
      refuseClosed();
      const token_hash = hashToken(token);
      if (token_hash === null) throw deadLink();
      const hash = await passwords.hash(password);
      return db.transaction(async (tx) => {
        const email = await store.takeSignUp(tx, token_hash, clock.now());
        if (email === undefined) throw deadLink();
        return makeUser(tx, { email, hash, proven_email: provenByLink(email) });
      });
    },
    /** Throws the same 401 for a wrong password and for an unknown address. */
    async signIn({ email, password, client }: Credentials): Promise<Begun> {
      limitTries({ client, account: email });
      const person = await store.personByEmail(email);
      const hash = person?.password_hash ?? null;
      const matches = await passwords.matches(password, hash);
      if (person === undefined || hash === null || !matches) throw userErrors.invalidCredentials();
      if (person.suspended_at !== null) throw userErrors.accountSuspended();
      return db.transaction((tx) => begin(tx, person, hash));
    },
    /** Sends a link if the user exists, even if they never set a password. Throws 429 when no mail was sent. */
    requestPasswordReset({ email, client }: Omit<Credentials, "password">): void {
      limitResetMails({ client, account: extractMailbox(email) });
      later(() => mailReset(email));
    },
    /** Throws 400 when the link was used or has expired. A mailed link proves the address; the account stays unchanged. */
    async resetPassword(token: string, new_password: string): Promise<Begun> {
      const token_hash = hashToken(token);
      if (token_hash === null) throw deadLink();
      const hash = await passwords.hash(new_password);
      return db.transaction(async (tx) => {
        const user_id = await store.takeReset(tx, token_hash, clock.now());
        const person = user_id === undefined ? undefined : await store.personById(user_id, tx);
        if (person === undefined) throw deadLink();
        if (person.suspended_at !== null) throw userErrors.accountSuspended();
        return renewPassword(tx, person, { hash, proven_email: provenByLink(person.email) });
      });
    },
    /** Throws 400 with `param` current_password when that is wrong. */
    async changePassword(token: string, current_password: string, new_password: string): Promise<Begun> {
      const user = await prove(token, current_password);
      const hash = await passwords.hash(new_password);
      return db.transaction((tx) => renewPassword(tx, user, { hash, proven_email: null }));
    },
    /** A second look at the password, for an operator's session. Returns until when it counts. Throws 400 when it is wrong. */
    async confirmPassword(token: string, password: string): Promise<Instant> {
      await prove(token, password, "password");
      return sessions.confirm(token);
    },
    async signOutEverywhere(token: string): Promise<void> {
      const { user } = await sessions.who(token);
      await sessions.endAll(db, user.id);
    },

    /** Deletes an erased user's password and sessions, and unverified sign-ups and unsent mails with their address. */
    async forgetUser(tx: Tx, user_id: string, email: string | null): Promise<void> {
      if (email !== null) {
        await store.deleteSignUps(tx, email);
        await mails.forgetAddress(tx, email);
      }
      await store.deletePassword(tx, user_id);
      await sessions.endAll(tx, user_id);
      await store.deleteResets(tx, user_id);
    },
    /** Ends the sessions of a user whose address was changed, and invalidates links that were mailed to the old one. */
    async addressChanged(tx: Tx, user_id: string): Promise<void> {
      await sessions.endAll(tx, user_id);
      await store.deleteResets(tx, user_id);
    },
    accessChanged: sessions.forgetAfter,
    /** Deletes expired rows. Called periodically. */
    sweep: () => store.sweep(clock.now()),
    /** Waits for running background work. */
    async close(): Promise<void> {
      await Promise.all(background);
      await sessions.close();
    },
  };
}

export type SignIn = Awaited<ReturnType<typeof createSignIn>>;

const deadLink = () =>
  errors.invalidValue("token", "This link was used already or is too old. Ask for a new one and open the latest.");

interface TokenBucket {
  size: number;
  refill_s: number;
}

/**
 * Limits attempts at an account by a token bucket per client and account, and a larger one per account. So one client
 * cannot lock the owner out, and many clients cannot guess without limit. Throws 429 with `message`.
 */
export function createAttemptLimit(buckets: { by_client: TokenBucket; by_account: TokenBucket; message?: string }) {
  const by_client = createTokenBuckets(buckets.by_client);
  const by_account = createTokenBuckets(buckets.by_account);
  return ({ client, account }: { client: string; account: string }): void => {
    const { retry_after_s } = by_client.take(`${client} ${account}`);
    const wait_s = retry_after_s ?? by_account.take(account).retry_after_s;
    if (wait_s !== null) throw errors.rateLimited(wait_s, buckets.message);
  };
}
