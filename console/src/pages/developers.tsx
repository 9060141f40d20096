import { Outlet, useRouterState } from "@tanstack/react-router";
import { Suspense } from "react";
import { Skeleton, Tabs } from "../ui/basics.tsx";

const PARTS = [
  ["/developers/keys", "API keys"],
  ["/developers/connect", "Connect"],
  ["/developers/models", "Models"],
  ["/developers/playground", "Playground"],
  ["/developers/requests", "Requests"],
  ["/developers/webhooks", "Webhooks"],
] as const;

/** The pages for people who write or run programs. */
export function DevelopersPage() {
  const path = useRouterState({ select: ({ location }) => location.pathname });
  return (
    <>
      <div className="justify-between gap-4 md:flex md:items-start">
        <Tabs
          label="Parts of the developers' pages"
          tabs={PARTS.map(([to, name]) => ({ name, to, chosen: path === to, search: {} }))}
        />
        <a href="/docs" className="link py-2 whitespace-nowrap max-md:mb-3 max-md:block">
          API reference
        </a>
      </div>
      <Suspense fallback={<Skeleton lines={6} />}>
        <Outlet />
      </Suspense>
    </>
  );
}
