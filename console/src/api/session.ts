import type { router as consoleRouter } from "../router.tsx";
import { call, signWith, whenUnauthorized } from "./client.ts";
import { forgetKey } from "./new-key.ts";
import { asProblem } from "./problem.ts";
import { profileQuery, queryClient } from "./queries.ts";

/** Signing in and out. The session is a cookie that scripts cannot read. */

type Router = typeof consoleRouter;

const tabs = "BroadcastChannel" in globalThis ? new BroadcastChannel("purser.session") : null;

let router: Router | null = null;
let reloading = false;
const forms = new Set<() => boolean>();
const hasChanges = () => [...forms].some((changed) => changed());

/** While a form has unsaved changes, its page stays open when the session ends. Returns the function that ends this. */
export function keepOpenWhile(changed: () => boolean): () => void {
  forms.add(changed);
  return () => void forms.delete(changed);
}

/** Allows pages of the console only: `next` comes from the address bar. */
export const inside = (next: unknown): string => (typeof next === "string" && /^\/(?![/\\])/.test(next) ? next : "/");

/** Reloads the data when another tab signs in or out, or the session ends. */
export function followSession(of: Router): void {
  router = of;
  tabs?.addEventListener("message", () => void reloadSession());
  whenUnauthorized(() => {
    const known = queryClient.getQueryData(profileQuery.queryKey) !== undefined;
    signWith(null);
    if (known) void reloadSession();
  });
}

async function reloadSession(): Promise<void> {
  if (reloading) return;
  reloading = true;
  try {
    await queryClient.fetchQuery({ ...profileQuery, staleTime: 0 });
    queryClient.removeQueries({ type: "inactive" });
    await queryClient.invalidateQueries();
    const { pathname, search } = router?.state.location ?? {};
    if (pathname === "/sign-in") await router?.navigate({ to: inside(search?.next), replace: true });
  } catch (error) {
    if (asProblem(error).status !== 401) return;
    // A page that needs no session stays: a form with typed text, or the operator's page.
    if (!needsSession()) queryClient.removeQueries({ type: "inactive" });
    else if (!hasChanges()) await toSignIn(router?.state.location.href);
  } finally {
    reloading = false;
  }
}

const needsSession = () => router?.state.matches.some(({ routeId }) => routeId === "/signed-in") === true;

/** Opens the sign-in page and clears the cache. `next` is the page to open after sign-in. */
async function toSignIn(next?: string): Promise<void> {
  forgetKey();
  const away = next !== undefined && !next.startsWith("/sign-in");
  await router?.navigate({ to: "/sign-in", search: away ? { next } : {} });
  // A person who stays at unsaved changes delays this until they open another page.
  if (router?.state.location.pathname === "/sign-in") queryClient.clear();
}

/** Signs in by `work` and notifies the other tabs. */
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

/** Uses an API key instead of a session. Only this tab's memory holds it. Throws if the key is not valid. */
export async function signInWithKey(key: string): Promise<void> {
  await call("GET /api/v1/users/me", { key });
  queryClient.clear();
  signWith(key);
}

/** Removes the API key from this tab's memory. */
export async function leaveKey(): Promise<void> {
  signWith(null);
  await toSignIn();
}
