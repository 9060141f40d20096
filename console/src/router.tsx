import { createRootRoute, createRoute, createRouter, Outlet, redirect } from "@tanstack/react-router";
import { asProblem } from "./api/problem.ts";
import { profileQuery, queryClient } from "./api/queries.ts";
import { Layout } from "./layout.tsx";
import { lazyPage } from "./lazy-page.ts";
import { NotFound, PagePartProblem, PageProblem } from "./page-problem.tsx";
import { choice, flag, text, whole } from "./search.ts";

/** Every page with its address. What a page shows is in its address, so that it can be kept, sent and gone back to. */

const isGoing = (): boolean => router.state.status === "pending";
const page = (load: () => Promise<object>, name: string) => lazyPage(load, name, isGoing);

const root = createRootRoute({ component: Outlet, errorComponent: PageProblem, notFoundComponent: NotFound });

/** Where nobody needs to be signed in. */
const open = <Path extends string>(path: Path, load: () => Promise<object>, name: string) =>
  createRoute({
    getParentRoute: () => root,
    path,
    component: page(load, name),
    validateSearch: (search: Record<string, unknown>) => ({ ...text(search, "next"), ...text(search, "search") }),
  });
const signInPages = () => import("./pages/sign-in.tsx");
const openRoutes = [
  open("/sign-in", signInPages, "SignInPage"),
  open("/sign-up", signInPages, "SignUpPage"),
  open("/forgot-password", signInPages, "ForgotPasswordPage"),
  open("/reset-password", signInPages, "ResetPasswordPage"),
  open("/verify-email", signInPages, "VerifyEmailPage"),
  open("/operator", () => import("./pages/operator.tsx"), "OperatorPage"),
] as const;

const house = createRoute({
  getParentRoute: () => root,
  id: "house",
  component: Layout,
  beforeLoad: async ({ location }) => {
    try {
      await queryClient.ensureQueryData(profileQuery);
    } catch (error) {
      if (asProblem(error).status !== 401) throw error;
      const next = location.href === "/" ? {} : { next: location.href };
      throw redirect({ to: "/sign-in", search: next });
    }
  },
});

const overview = createRoute({
  getParentRoute: () => house,
  path: "/",
  component: page(() => import("./pages/overview.tsx"), "OverviewPage"),
  validateSearch: (search: Record<string, unknown>) => ({
    ...choice(search, "days", [7, 30, 90]),
    ...choice(search, "by", ["model", "agent", "key"]),
  }),
});
const agents = createRoute({
  getParentRoute: () => house,
  path: "/agents",
  component: page(() => import("./pages/agents.tsx"), "AgentsPage"),
});
const newAgent = createRoute({
  getParentRoute: () => house,
  path: "/agents/new",
  component: page(() => import("./pages/agent-editor.tsx"), "NewAgentPage"),
});
const agent = createRoute({
  getParentRoute: () => house,
  path: "/agents/$id",
  component: page(() => import("./pages/agent.tsx"), "AgentPage"),
  validateSearch: (search: Record<string, unknown>) => ({
    ...choice(search, "tab", ["runs", "schedule", "settings"]),
    ...choice(search, "status", ["queued", "running", "succeeded", "failed", "cancelled"]),
    ...choice(search, "trigger", ["schedule", "manual", "chat"]),
  }),
});
const editAgent = createRoute({
  getParentRoute: () => house,
  path: "/agents/$id/edit",
  component: page(() => import("./pages/agent-editor.tsx"), "EditAgentPage"),
});
const run = createRoute({
  getParentRoute: () => house,
  path: "/agents/$id/runs/$run_id",
  component: page(() => import("./pages/run.tsx"), "RunPage"),
  validateSearch: (search: Record<string, unknown>): { why?: "all" | number } => ({
    ...choice(search, "why", ["all"]),
    ...whole(search, "why"),
  }),
});
const chat = createRoute({
  getParentRoute: () => house,
  path: "/agents/$id/chat",
  component: page(() => import("./pages/chat.tsx"), "ChatPage"),
  validateSearch: (search: Record<string, unknown>) => text(search, "thread"),
});
const secrets = createRoute({
  getParentRoute: () => house,
  path: "/secrets",
  component: page(() => import("./pages/secrets.tsx"), "SecretsPage"),
  validateSearch: (search: Record<string, unknown>) => text(search, "uses"),
});
const billing = createRoute({
  getParentRoute: () => house,
  path: "/billing",
  component: page(() => import("./pages/billing.tsx"), "BillingPage"),
  validateSearch: (search: Record<string, unknown>) => ({
    ...choice(search, "tab", ["balance", "ledger", "plans", "overage", "purchases"]),
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
const keys = createRoute({
  getParentRoute: () => house,
  path: "/keys",
  component: page(() => import("./pages/keys.tsx"), "KeysPage"),
});
const notices = createRoute({
  getParentRoute: () => house,
  path: "/notices",
  component: page(() => import("./pages/notices.tsx"), "NoticesPage"),
  validateSearch: (search: Record<string, unknown>) => text(search, "event"),
});
const account = createRoute({
  getParentRoute: () => house,
  path: "/account",
  component: page(() => import("./pages/account.tsx"), "AccountPage"),
});

const pages = [
  overview,
  agents,
  newAgent,
  agent,
  editAgent,
  run,
  chat,
  secrets,
  billing,
  keys,
  notices,
  account,
] as const;

export const router = createRouter({
  routeTree: root.addChildren([house.addChildren([...pages]), ...openRoutes]),
  defaultPreload: "intent",
  defaultErrorComponent: PagePartProblem,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
