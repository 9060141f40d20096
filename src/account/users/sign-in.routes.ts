import { stringifySetCookie } from "cookie";
import { createRouter, json, noContent, type RequestContext } from "../../api/contract/endpoint.ts";
import * as contract from "../../api/contract/sign-in.ts";
import { SESSION_DAYS } from "../../kernel/constants.ts";
import { errors, PurserError } from "../../kernel/errors.ts";
import { createTokenBuckets } from "../../platform/lib/token-bucket.ts";
import type { PublicAddress } from "../../platform/net/public-address.ts";
import { userErrors } from "./errors.ts";
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
  const attributes = { httpOnly: true, secure: address.secure, sameSite: "lax", path: "/" } as const;

  /** Only well-formed requests count against the sender's limit. */
  const limit = (request: RequestContext, buckets = attempts) => {
    const { retry_after_s } = buckets.take(request.client_address);
    if (retry_after_s !== null) throw errors.rateLimited(retry_after_s);
  };
  /** The headers of an answer that begins or ends a session. */
  const setting = (value: string, maxAge: number) => ({
    "Set-Cookie": stringifySetCookie({ name: cookie, value, maxAge, ...attributes }),
  });
  const entering = ({ token }: Begun) => setting(token, SESSION_DAYS * 86_400);
  const LEAVING = setting("", 0);
  const ownToken = (request: RequestContext): string => {
    const token = request.session_token;
    if (token === null) throw userErrors.sessionExpired();
    return token;
  };
  const linkSent = { status: "link_sent", delivery: signIn.delivery } as const;

  router.on(contract.signUp, async (request) => {
    limit(request, sign_ups);
    const begun = await signIn.signUp({ ...request.body, client: request.client_address });
    return begun === null ? json(linkSent, 202) : json(begun.signed_in, 201, entering(begun));
  });
  router.on(contract.verifyEmail, async (request) => {
    limit(request);
    const { token, password } = request.body;
    const begun = await signIn.verifyEmail(token, password);
    return json(begun.signed_in, 201, entering(begun));
  });
  router.on(contract.signIn, async (request) => {
    limit(request);
    const credentials = { ...request.body, client: request.client_address };
    const begun = await signIn.signIn(credentials);
    return json(begun.signed_in, 200, entering(begun));
  });
  router.on(contract.requestPasswordReset, (request) => {
    limit(request, resets);
    signIn.requestPasswordReset({ ...request.body, client: request.client_address });
    return json(linkSent, 202);
  });
  router.on(contract.resetPassword, async (request) => {
    limit(request);
    const { token, new_password } = request.body;
    const begun = await signIn.resetPassword(token, new_password);
    return json(begun.signed_in, 200, entering(begun));
  });
  router.on(contract.changePassword, async (request) => {
    limit(request);
    const { current_password, new_password } = request.body;
    const begun = await signIn.changePassword(ownToken(request), current_password, new_password);
    return json(begun.signed_in, 200, entering(begun));
  });
  router.on(contract.confirmPassword, async (request) => {
    limit(request);
    return json({ confirmed_until: await signIn.confirmPassword(ownToken(request), request.body.password) });
  });
  router.on(contract.deleteAccount, async (request) => {
    limit(request);
    const { id } = await signIn.prove(ownToken(request), request.body.current_password);
    await eraseUser(id);
    return noContent(LEAVING);
  });
  router.on(contract.signOut, async (request) => {
    const token = request.session_token;
    if (token !== null) await signIn.signOut(token);
    return noContent(LEAVING);
  });
  router.on(contract.signOutEverywhere, async (request) => {
    await signIn.signOutEverywhere(ownToken(request));
    return noContent(LEAVING);
  });
  router.on(contract.getSession, async (request) => {
    const token = request.session_token;
    const who = token === null ? null : await signIn.who(token).catch(nobody);
    const { signup, verification, delivery } = signIn;
    return json({ user: who?.user ?? null, session: who?.session ?? null, signup, verification, delivery });
  });
  return router;
}

/** Null for an ended session. A suspended user gets the same error as elsewhere. */
function nobody(error: unknown): null {
  if (error instanceof PurserError && error.code === "session_expired") return null;
  throw error;
}
