import { createRootRoute, createRoute, createRouter, Outlet, redirect } from "@tanstack/react-router";
import { useEffect, useSyncExternalStore } from "react";
import { isDrill, send, whenDrill } from "./api/client.ts";
import { asProblem } from "./api/problem.ts";
import { profileQuery, queryClient } from "./api/queries.ts";
import { Layout } from "./layout.tsx";
import { lazyPage } from "./lazy-page.ts";
import { RUN_TRIGGERS, type RunTrigger, STATUS_FILTERS } from "./run-words.ts";
import { Callout } from "./ui/basics.tsx";
import { ConsoleProblem, NotFound, PageProblem } from "./ui/problem.tsx";

/** Every page with its address. The address holds the filters and tabs of a page, so a person can bookmark and share it. */

/** Readers of the address's search part. A value that they do not know becomes undefined: without it, the value stays. */
type Search = Record<string, unknown>;

function choice<const Name extends string, const Option extends string | number>(
  search: Search,
  name: Name,
  options: readonly Option[],
): { [N in Name]?: Option } {
  const found = options.find((option) => option === search[name]);
  return { [name]: found } as { [N in Name]?: Option };
}

function text<const Name extends string>(search: Search, name: Name): { [N in Name]?: string } {
  const value = search[name];
  const found = typeof value === "string" || typeof value === "number" ? String(value) : "";
  return { [name]: found === "" ? undefined : found } as { [N in Name]?: string };
}

function whole<const Name extends string>(search: Search, name: Name): { [N in Name]?: number } {
  const value = search[name];
  return { [name]: Number.isSafeInteger(value) ? value : undefined } as { [N in Name]?: number };
}

function flag<const Name extends string>(search: Search, name: Name): { [N in Name]?: true } {
  return { [name]: search[name] === true ? true : undefined } as { [N in Name]?: true };
}

/** Names with texts. */
function pairs<const Name extends string>(search: Search, name: Name): { [N in Name]?: Record<string, string> } {
  const found = Object.entries(search[name] ?? {}).map(([key, value]) => [key, String(value)]);
  return { [name]: found.length === 0 ? undefined : Object.fromEntries(found) } as {
    [N in Name]?: Record<string, string>;
  };
}

const isNavigating = (): boolean => router.state.status === "pending";
const page = (load: () => Promise<object>, name: string) => lazyPage(load, name, isNavigating);

/** Every page, below the banner of a drill. */
function Root() {
  const is_drill = useSyncExternalStore(whenDrill, isDrill);
  // Pages without a sign-in may ask nothing else.
  useEffect(() => void send("/livez").catch(() => {}), []);
  return (
    <>
      {is_drill && (
        <div role="status" className="px-4 pt-3">
          <Callout tone="bad" icon="warning">
            <strong className="font-semibold">This is a drill, not the real service.</strong> It runs on a restored
            copy: schedules do not run, and no webhooks, e-mails and payments are sent.
          </Callout>
        </div>
      )}
      <Outlet />
    </>
  );
}

const root = createRootRoute({ component: Root, errorComponent: ConsoleProblem, notFoundComponent: NotFound });

/** A page that needs no sign-in. */
const open = <Path extends string>(path: Path, load: () => Promise<object>, name: string) =>
  createRoute({
    getParentRoute: () => root,
    path,
    component: page(load, name),
    validateSearch: (search: Search) => ({
      ...text(search, "next"),
    }),
  });
const signInPages = () => import("./pages/sign-in.tsx");
const openRoutes = [
  open("/sign-in", signInPages, "SignInPage"),
  open("/sign-up", signInPages, "SignUpPage"),
  open("/forgot-password", signInPages, "ForgotPasswordPage"),
  open("/reset-password", signInPages, "ResetPasswordPage"),
  open("/verify-email", signInPages, "VerifyEmailPage"),
] as const;

const signedIn = createRoute({
  getParentRoute: () => root,
  id: "signed-in",
  component: Layout,
  beforeLoad: async ({ location }) => {
    try {
      await queryClient.ensureQueryData(profileQuery);
    } catch (error) {
      // The layout shows any other failure beside its navigation.
      if (asProblem(error).status !== 401) return;
      const next = location.href === "/" ? {} : { next: location.href };
      throw redirect({ to: "/sign-in", search: next });
    }
  },
});

const home = createRoute({
  getParentRoute: () => signedIn,
  path: "/",
  component: page(() => import("./pages/home.tsx"), "HomePage"),
  // The usage was here once.
  beforeLoad: ({ location }) => {
    const { days, by } = location.search as Search;
    if (days !== undefined || by !== undefined) throw redirect({ href: `/usage${location.searchStr}`, replace: true });
  },
});
const usage = createRoute({
  getParentRoute: () => signedIn,
  path: "/usage",
  component: page(() => import("./pages/usage.tsx"), "UsagePage"),
  validateSearch: (search: Search) => ({
    ...choice(search, "days", [7, 30, 90]),
    ...text(search, "day"),
    ...text(search, "by"),
    ...text(search, "then_by"),
    ...text(search, "model"),
    ...text(search, "agent_id"),
    ...text(search, "api_key_id"),
    ...text(search, "user"),
    ...pairs(search, "metadata"),
  }),
});
const agents = createRoute({
  getParentRoute: () => signedIn,
  path: "/agents",
  component: page(() => import("./pages/agents.tsx"), "AgentsPage"),
  validateSearch: (search: Search) => text(search, "name"),
});
const newAgent = createRoute({
  getParentRoute: () => signedIn,
  path: "/agents/new",
  component: page(() => import("./pages/agent-editor.tsx"), "NewAgentPage"),
});
const agent = createRoute({
  getParentRoute: () => signedIn,
  path: "/agents/$id",
  component: page(() => import("./pages/agent.tsx"), "AgentPage"),
  validateSearch: (search: Search) => ({
    ...choice(search, "tab", ["runs", "schedule", "triggers", "settings", "versions"]),
    ...choice(search, "status", STATUS_FILTERS),
    ...choice(search, "trigger", Object.keys(RUN_TRIGGERS) as RunTrigger[]),
    ...text(search, "from"),
    ...text(search, "to"),
  }),
});
const runs = createRoute({
  getParentRoute: () => signedIn,
  path: "/runs",
  component: page(() => import("./pages/runs.tsx"), "RunsPage"),
  validateSearch: (search: Search) => ({
    ...text(search, "q"),
    ...choice(search, "status", STATUS_FILTERS),
    ...choice(search, "trigger", Object.keys(RUN_TRIGGERS) as RunTrigger[]),
    ...text(search, "agent_id"),
    ...text(search, "model_id"),
    ...text(search, "user"),
    ...text(search, "metadata"),
    ...text(search, "from"),
    ...text(search, "to"),
    ...text(search, "run"),
  }),
});
const editAgent = createRoute({
  getParentRoute: () => signedIn,
  path: "/agents/$id/edit",
  component: page(() => import("./pages/agent-editor.tsx"), "EditAgentPage"),
  validateSearch: (search: Search) => ({ ...text(search, "field"), ...text(search, "test") }),
});
const run = createRoute({
  getParentRoute: () => signedIn,
  path: "/agents/$id/runs/$run_id",
  component: page(() => import("./pages/run.tsx"), "RunPage"),
  validateSearch: (search: Search): { why?: "all" | number; step?: number } => ({
    ...(search.why === "all" ? { why: "all" } : whole(search, "why")),
    ...whole(search, "step"),
  }),
});
const decide = createRoute({
  getParentRoute: () => signedIn,
  path: "/agents/$id/runs/$run_id/decide",
  component: page(() => import("./pages/decide.tsx"), "DecidePage"),
});
const chat = createRoute({
  getParentRoute: () => signedIn,
  path: "/agents/$id/chat",
  component: page(() => import("./pages/chat.tsx"), "ChatPage"),
  validateSearch: (search: Search) => text(search, "thread"),
});
const vault = createRoute({
  getParentRoute: () => signedIn,
  path: "/vault",
  component: page(() => import("./pages/vault.tsx"), "VaultPage"),
  validateSearch: (search: Search) => ({
    ...text(search, "uses"),
    ...text(search, "connected"),
    ...text(search, "connect_error"),
  }),
});
const billing = createRoute({
  getParentRoute: () => signedIn,
  path: "/billing",
  component: page(() => import("./pages/billing.tsx"), "BillingPage"),
  validateSearch: (search: Search) => ({
    ...choice(search, "tab", ["balance", "ledger", "plans", "overage", "purchases", "end_users"]),
    ...choice(search, "type", ["grant", "usage", "expiry", "refund", "clawback", "overage", "absorbed", "adjustment"]),
    ...text(search, "agent_id"),
    ...text(search, "run_id"),
    ...text(search, "from"),
    ...text(search, "to"),
    ...text(search, "why"),
    ...whole(search, "line"),
    ...flag(search, "closed"),
    ...flag(search, "top_up"),
  }),
});
const receipt = createRoute({
  getParentRoute: () => signedIn,
  path: "/billing/receipts/$id",
  component: page(() => import("./pages/receipt.tsx"), "ReceiptPage"),
});
const developers = createRoute({
  getParentRoute: () => signedIn,
  path: "/developers",
  component: page(() => import("./pages/developers.tsx"), "DevelopersPage"),
  beforeLoad: ({ location }) => {
    if (/^\/developers\/?$/.test(location.pathname)) throw redirect({ to: "/developers/keys", replace: true });
  },
});
const keys = createRoute({
  getParentRoute: () => developers,
  path: "/keys",
  component: page(() => import("./pages/keys.tsx"), "KeysPage"),
});
const connect = createRoute({
  getParentRoute: () => developers,
  path: "/connect",
  component: page(() => import("./pages/connect.tsx"), "ConnectPage"),
  validateSearch: (search: Search) => ({ ...text(search, "program"), ...text(search, "model") }),
});
const models = createRoute({
  getParentRoute: () => developers,
  path: "/models",
  component: page(() => import("./pages/models.tsx"), "ModelsPage"),
});
const playground = createRoute({
  getParentRoute: () => developers,
  path: "/playground",
  component: page(() => import("./pages/playground.tsx"), "PlaygroundPage"),
  validateSearch: (search: Search) => ({
    ...text(search, "model"),
    ...choice(search, "code", ["curl", "Python", "TypeScript"]),
  }),
});
const requests = createRoute({
  getParentRoute: () => developers,
  path: "/requests",
  component: page(() => import("./pages/requests.tsx"), "RequestsPage"),
  validateSearch: (search: Search) => ({
    ...text(search, "request_id"),
    ...text(search, "status"),
    ...text(search, "model"),
    ...text(search, "api_key_id"),
    ...text(search, "user"),
    ...whole(search, "min_ms"),
    ...text(search, "from"),
    ...text(search, "to"),
    ...text(search, "request"),
  }),
});
const webhooks = createRoute({
  getParentRoute: () => developers,
  path: "/webhooks",
  component: page(() => import("./pages/webhooks.tsx"), "WebhooksPage"),
});
const notices = createRoute({
  getParentRoute: () => signedIn,
  path: "/notices",
  component: page(() => import("./pages/notices.tsx"), "NoticesPage"),
  validateSearch: (search: Search) => text(search, "event"),
});
const operator = createRoute({
  getParentRoute: () => signedIn,
  path: "/operator",
  component: page(() => import("./pages/operator.tsx"), "OperatorPage"),
  // Users and their search had this address once.
  beforeLoad: ({ location }) => {
    const { user, search } = location.search as Search;
    if (typeof user === "string") throw redirect({ to: "/operator/users/$id", params: { id: user }, replace: true });
    if (search !== undefined && /^\/operator\/?$/.test(location.pathname))
      throw redirect({ href: `/operator/users${location.searchStr}`, replace: true });
  },
});
const operatorPage = <Path extends string>(path: Path, load: () => Promise<object>, name: string) =>
  createRoute({ getParentRoute: () => operator, path, component: page(load, name) });
const operatorUsers = () => import("./pages/operator-users.tsx");
const operatorPages = [
  createRoute({
    getParentRoute: () => operator,
    path: "/",
    component: page(() => import("./pages/operator-overview.tsx"), "OperatorOverviewPage"),
    validateSearch: (search: Search) => choice(search, "window", ["7d"]),
  }),
  createRoute({
    getParentRoute: () => operator,
    path: "/users",
    component: page(operatorUsers, "OperatorUsersPage"),
    validateSearch: (search: Search) => text(search, "search"),
  }),
  operatorPage("/users/$id", operatorUsers, "OperatorUserPage"),
  createRoute({
    getParentRoute: () => operator,
    path: "/runs",
    component: page(() => import("./pages/operator-runs.tsx"), "OperatorRunsPage"),
    validateSearch: (search: Search) => ({
      ...choice(search, "status", STATUS_FILTERS),
      ...choice(search, "trigger", Object.keys(RUN_TRIGGERS) as RunTrigger[]),
      ...text(search, "user_id"),
      ...text(search, "agent_id"),
      ...text(search, "error_code"),
      ...text(search, "from"),
      ...text(search, "to"),
      ...text(search, "run"),
    }),
  }),
  createRoute({
    getParentRoute: () => operator,
    path: "/payments",
    component: page(() => import("./pages/operator-payments.tsx"), "OperatorPaymentsPage"),
    validateSearch: (search: Search) => ({
      ...choice(search, "status", ["pending", "succeeded", "failed", "refunded", "mismatch"]),
      ...choice(search, "invoices", ["open", "paid", "unpaid", "void"]),
      ...text(search, "from"),
      ...text(search, "to"),
    }),
  }),
  createRoute({
    getParentRoute: () => operator,
    path: "/acts",
    component: page(() => import("./pages/operator-acts.tsx"), "OperatorActsPage"),
    validateSearch: (search: Search) => ({
      ...text(search, "what"),
      ...text(search, "user_id"),
      ...text(search, "operator_id"),
      ...text(search, "from"),
      ...text(search, "to"),
    }),
  }),
  operatorPage("/settings", () => import("./pages/operator-settings.tsx"), "OperatorSettingsPage"),
  operatorPage("/setup", () => import("./pages/operator-setup.tsx"), "OperatorSetupPage"),
] as const;
const account = createRoute({
  getParentRoute: () => signedIn,
  path: "/account",
  component: page(() => import("./pages/account.tsx"), "AccountPage"),
});

/** An address of an earlier version of the console. */
const moved = <Path extends string>(path: Path, to: string) =>
  createRoute({
    getParentRoute: () => root,
    path,
    beforeLoad: ({ location }) => {
      throw redirect({ href: to + location.searchStr, replace: true });
    },
  });
const movedRoutes = [
  moved("/secrets", "/vault"),
  moved("/keys", "/developers/keys"),
  moved("/connect", "/developers/connect"),
] as const;

const pages = [
  home,
  usage,
  agents,
  newAgent,
  agent,
  editAgent,
  runs,
  run,
  decide,
  chat,
  vault,
  billing,
  receipt,
  developers.addChildren([keys, connect, models, playground, requests, webhooks]),
  notices,
  operator.addChildren([...operatorPages]),
  account,
] as const;

export const router = createRouter({
  routeTree: root.addChildren([signedIn.addChildren([...pages]), ...movedRoutes, ...openRoutes]),
  defaultPreload: "intent",
  defaultErrorComponent: PageProblem,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
