import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { Suspense, useEffect, useRef, useState } from "react";
import { keyInUse } from "./api/client.ts";
import { plansQuery, profileQuery } from "./api/queries.ts";
import { leaveKey, signOut } from "./api/session.ts";
import { day, short } from "./format.ts";
import { OWN_ZONE, zoneName } from "./schedule-words.ts";
import { Badge, Button, Callout, Skeleton } from "./ui/basics.tsx";
import { Icon, type IconName, Logo } from "./ui/icons.tsx";
import { ThemeChoice } from "./ui/theme.tsx";

/** The frame of every page: where one can go, what is left, and who one is. */

const PLACES = [
  ["/", "Overview", "overview"],
  ["/agents", "Agents", "agents"],
  ["/secrets", "Secrets", "secrets"],
  ["/billing", "Usage and billing", "billing"],
  ["/keys", "API keys", "keys"],
  ["/notices", "Notices", "notices"],
] as const satisfies readonly (readonly [string, string, IconName])[];

const PLACE =
  "flex items-center gap-2.5 rounded-md px-2.5 py-1.5 text-muted hover:bg-sunken hover:text-ink aria-[current=page]:bg-accent-soft aria-[current=page]:text-accent";

export function Layout() {
  const [menu_open, setMenuOpen] = useState(false);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const main = useRef<HTMLElement>(null);
  const seen = useRef(path);
  useEffect(() => {
    if (seen.current === path) return;
    seen.current = path;
    setMenuOpen(false);
    main.current?.focus({ preventScroll: true }); // so that readers begin where the new page does
  }, [path]);
  return (
    <div className="min-h-dvh md:grid md:grid-cols-[15rem_minmax(0,1fr)]">
      <a
        href="#main"
        className="sr-only focus:not-sr-only focus:absolute focus:z-20 focus:m-2 focus:rounded-md focus:bg-panel focus:px-3 focus:py-2"
      >
        Skip to the content
      </a>
      <header className="sticky top-0 z-10 flex items-center justify-between border-b border-line bg-panel px-4 py-2 md:hidden">
        <Link to="/" className="flex items-center gap-2 font-semibold">
          <Logo className="size-6" /> Purser
        </Link>
        <Button
          kind="quiet"
          aria-expanded={menu_open}
          aria-controls="places"
          onClick={() => setMenuOpen(!menu_open)}
          icon={menu_open ? "close" : "menu"}
        >
          Menu
        </Button>
      </header>
      <aside
        id="places"
        aria-label="Places and account"
        className={`${menu_open ? "" : "max-md:hidden"} border-line bg-panel max-md:border-b md:sticky md:top-0 md:h-dvh md:border-r`}
      >
        <Places />
      </aside>
      <main
        ref={main}
        id="main"
        tabIndex={-1}
        className="mx-auto w-full max-w-6xl min-w-0 px-4 py-6 outline-none md:px-8 md:py-8"
      >
        <Banners />
        <Suspense fallback={<Skeleton lines={6} />}>
          <Outlet />
        </Suspense>
      </main>
    </div>
  );
}

function Places() {
  const { data: profile } = useSuspenseQuery(profileQuery);
  return (
    <div className="flex h-full flex-col gap-1 overflow-y-auto p-3">
      <Link
        to="/"
        className="mb-3 flex items-center gap-2.5 px-2 py-1.5 text-base font-semibold tracking-tight max-md:hidden"
      >
        <Logo /> Purser
      </Link>
      <nav aria-label="Main" className="space-y-0.5">
        {PLACES.map(([to, name, icon]) => (
          <Link
            key={to}
            to={to}
            activeOptions={{ exact: to === "/", includeSearch: false }}
            className={`${PLACE} font-medium`}
          >
            <Icon name={icon} /> {name}
          </Link>
        ))}
        <a href="/docs" className={`${PLACE} font-medium`}>
          <Icon name="reference" /> API reference
        </a>
      </nav>
      <div className="mt-auto space-y-3 pt-6">
        <Link to="/billing" className="block rounded-lg border border-line px-3 py-2.5 hover:bg-sunken">
          <span className="block text-xs text-muted">Balance</span>
          <span className="text-base font-semibold">{short(profile.token_balance)}</span>{" "}
          <span className="text-muted">tokens</span>
          {profile.is_trial && profile.trial_ends_at !== null && (
            <span className="block text-xs text-muted">Trial until {day(profile.trial_ends_at)}</span>
          )}
        </Link>
        <ThemeChoice />
        <p className="px-2.5 text-xs text-muted">
          Times are {OWN_ZONE === "UTC" ? "UTC" : `${zoneName(OWN_ZONE)} time`}
        </p>
        <Person email={profile.email} />
      </div>
    </div>
  );
}

function Person({ email }: { email: string }) {
  const with_key = keyInUse() !== null;
  return (
    <div className="border-t border-line pt-2">
      {with_key ? (
        <p className="px-2.5 py-1 text-sm text-muted">
          <span className="block truncate">{email}</span>
          with an API key, until this tab is reloaded
        </p>
      ) : (
        <Link to="/account" className={PLACE}>
          <Icon name="person" /> <span className="truncate">{email}</span>
        </Link>
      )}
      <button type="button" className={`${PLACE} w-full`} onClick={() => void (with_key ? leaveKey() : signOut())}>
        <Icon name="leave" /> {with_key ? "Forget the key" : "Sign out"}
      </button>
    </div>
  );
}

/** What concerns every page: payments that move no money, debt. */
function Banners() {
  const { data: profile } = useSuspenseQuery(profileQuery);
  const { data: offer } = useQuery(plansQuery);
  return (
    <div className="space-y-3 empty:hidden [&:not(:empty)]:mb-5">
      {profile.balance.debt > 0 && (
        <Callout tone="warn" icon="billing">
          {short(profile.balance.debt)} tokens of a refunded payment had been spent already. The next tokens you buy
          repay them first.
        </Callout>
      )}
      {offer?.payments === "sandbox" && (
        <p className="-mt-3 text-sm text-muted">
          <Badge tone="accent">Sandbox</Badge> What is bought here moves no money.
        </p>
      )}
    </div>
  );
}
