import type { router as consoleRouter } from "../router.tsx";
import { call, signWith, whenUnauthorized } from "./client.ts";
import { asProblem } from "./problem.ts";
import { profileQuery, queryClient } from "./queries.ts";

/** Signing in and out. The session is a cookie that scripts cannot read. */

type Router = typeof consoleRouter;

const tabs = "BroadcastChannel" in globalThis ? new BroadcastChannel("purser.session") : null;

let router: Router | null = null;
let looking = false;

/** Signed in or out in another tab, or the session has ended: this tab looks anew. */
export function followSession(of: Router): void {
  router = of;
  tabs?.addEventListener("message", () => void lookAnew());
  whenUnauthorized(() => {
    const known = queryClient.getQueryData(profileQuery.queryKey) !== undefined;
    signWith(null);
    if (known) void lookAnew();
  });
}

async function lookAnew(): Promise<void> {
  if (looking) return;
  looking = true;
  try {
    await queryClient.fetchQuery({ ...profileQuery, staleTime: 0 });
    queryClient.removeQueries({ type: "inactive" });
    await queryClient.invalidateQueries();
  } catch (error) {
    if (asProblem(error).status === 401) await toSignIn(router?.state.location.href);
  } finally {
    looking = false;
  }
}

/** To the sign-in page, and what was read is forgotten once no page shows it any more. `next`: where to go on afterwards. */
async function toSignIn(next?: string): Promise<void> {
  const away = next !== undefined && !next.startsWith("/sign-in");
  await router?.navigate({ to: "/sign-in", search: away ? { next } : {} });
  queryClient.clear();
}

/** Does what signs somebody in, and tells the other tabs. */
async function enter<Value>(work: Promise<Value>): Promise<Value> {
  const value = await work;
  signWith(null);
  queryClient.clear();
  tabs?.postMessage("changed");
  return value;
}

async function leave(work: Promise<unknown>): Promise<void> {
  await work;
  tabs?.postMessage("changed");
  await toSignIn();
}

interface Credentials {
  email: string;
  password: string;
}
export const signIn = (body: Credentials) => enter(call("POST /api/v1/auth/sign-in/email", { body }));
/** With a password: signed in at once. Without: a link is mailed, and its page asks for the password. */
export const signUp = (body: { email: string; password?: string }) =>
  enter(call("POST /api/v1/auth/sign-up/email", { body }));
export const verifyEmail = (token: string, password: string) =>
  enter(call("POST /api/v1/auth/verify-email", { body: { token, password } }));
export const requestPasswordReset = (email: string) =>
  call("POST /api/v1/auth/request-password-reset", { body: { email } });
export const resetPassword = (token: string, new_password: string) =>
  enter(call("POST /api/v1/auth/reset-password", { body: { token, new_password } }));
export const changePassword = (current_password: string, new_password: string) =>
  call("POST /api/v1/auth/change-password", { body: { current_password, new_password } });
export const deleteAccount = (current_password: string) =>
  leave(call("POST /api/v1/auth/delete-account", { body: { current_password } }));
export const signOut = () => leave(call("POST /api/v1/auth/sign-out"));
export const signOutEverywhere = () => leave(call("POST /api/v1/auth/sign-out-everywhere"));

/** Works with an API key, which is kept in this tab's memory only. Rejects when the key is refused. */
export async function signInWithKey(key: string): Promise<void> {
  await call("GET /api/v1/users/me", { key });
  queryClient.clear();
  signWith(key);
}

/** Forgets the key of this tab. */
export async function leaveKey(): Promise<void> {
  signWith(null);
  await toSignIn();
}
