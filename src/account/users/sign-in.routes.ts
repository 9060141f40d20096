import type { Context } from "hono";
import { deleteCookie, setCookie } from "hono/cookie";
import type { HttpEnv } from "../../api/contract/caller.ts";
import { createRouter } from "../../api/contract/router.ts";
import * as contract from "../../api/contract/sign-in.ts";
import { SESSION_DAYS } from "../../kernel/constants.ts";
import { errors, PurserError } from "../../kernel/errors.ts";
import { createTokenBuckets } from "../../platform/lib/token-bucket.ts";
import type { PublicAddress } from "../../platform/net/public-address.ts";
import type { Begun, SignIn } from "./sign-in.service.ts";

/** contract 3: sign-ups are limited by network address. Offices share one, so the limits are generous. */
const SIGN_UPS = { size: 30, refill_s: 3600 };
const RESETS = { size: 30, refill_s: 3600 };
const ATTEMPTS = { size: 100, refill_s: 600 };

interface SignInRoutesOptions {
  signIn: SignIn;
  address: PublicAddress;
  eraseUser(user_id: string): Promise<void>;
}

export function signInRoutes({ signIn, address, eraseUser }: SignInRoutesOptions) {
  const router = createRouter();
  const sign_ups = createTokenBuckets(SIGN_UPS);
  const resets = createTokenBuckets(RESETS);
  const attempts = createTokenBuckets(ATTEMPTS);
  const cookie = contract.sessionCookieName(address.secure);
  const attributes = { httpOnly: true, secure: address.secure, sameSite: "Lax", path: "/" } as const;

  /** Only well-formed requests count against the sender's limit. */
  const limit = (c: Context<HttpEnv>, buckets = attempts) => {
    const { retry_after_s } = buckets.take(c.get("client_address"));
    if (retry_after_s !== null) throw errors.rateLimited(retry_after_s);
  };
  const enter = <Entered extends Begun>(c: Context<HttpEnv>, { token, signed_in }: Entered): Entered["signed_in"] => {
    setCookie(c, cookie, token, { ...attributes, maxAge: SESSION_DAYS * 86_400 });
    return signed_in;
  };
  const ownToken = (c: Context<HttpEnv>): string => {
    const token = c.get("session_token");
    if (token === null) throw errors.sessionExpired();
    return token;
  };
  const linkSent = { status: "link_sent", delivery: signIn.delivery } as const;

  router.openapi(contract.signUp, async (c) => {
    limit(c, sign_ups);
    const begun = await signIn.signUp({ ...c.req.valid("json"), client: c.get("client_address") });
    return begun === null ? c.json(linkSent, 202) : c.json(enter(c, begun), 201);
  });
  router.openapi(contract.verifyEmail, async (c) => {
    limit(c);
    const { token, password } = c.req.valid("json");
    return c.json(enter(c, await signIn.verifyEmail(token, password)), 201);
  });
  router.openapi(contract.signIn, async (c) => {
    limit(c);
    const credentials = { ...c.req.valid("json"), client: c.get("client_address") };
    return c.json(enter(c, await signIn.signIn(credentials)), 200);
  });
  router.openapi(contract.requestPasswordReset, (c) => {
    limit(c, resets);
    signIn.requestPasswordReset({ ...c.req.valid("json"), client: c.get("client_address") });
    return c.json(linkSent, 202);
  });
  router.openapi(contract.resetPassword, async (c) => {
    limit(c);
    const { token, new_password } = c.req.valid("json");
    return c.json(enter(c, await signIn.resetPassword(token, new_password)), 200);
  });
  router.openapi(contract.changePassword, async (c) => {
    limit(c);
    const { current_password, new_password } = c.req.valid("json");
    return c.json(enter(c, await signIn.changePassword(ownToken(c), current_password, new_password)), 200);
  });
  router.openapi(contract.deleteAccount, async (c) => {
    limit(c);
    const { id } = await signIn.prove(ownToken(c), c.req.valid("json").current_password);
    await eraseUser(id);
    deleteCookie(c, cookie, attributes);
    return c.body(null, 204);
  });
  router.openapi(contract.signOut, async (c) => {
    const token = c.get("session_token");
    if (token !== null) await signIn.signOut(token);
    deleteCookie(c, cookie, attributes);
    return c.body(null, 204);
  });
  router.openapi(contract.signOutEverywhere, async (c) => {
    await signIn.signOutEverywhere(ownToken(c));
    deleteCookie(c, cookie, attributes);
    return c.body(null, 204);
  });
  router.openapi(contract.getSession, async (c) => {
    const token = c.get("session_token");
    const who = token === null ? null : await signIn.who(token).catch(nobody);
    const { signup, verification, delivery } = signIn;
    return c.json({ user: who?.user ?? null, session: who?.session ?? null, signup, verification, delivery }, 200);
  });
  return router;
}

/** Null for an ended session. A suspended user gets the same error as elsewhere. */
function nobody(error: unknown): null {
  if (error instanceof PurserError && error.code === "session_expired") return null;
  throw error;
}
