import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { type ComponentType, Suspense, useCallback, useEffect, useRef, useState } from "react";
import { keyInUse } from "./api/client.ts";
import { modelsQuery, newestNoticeQuery, overageQuery, plansQuery, profileQuery } from "./api/queries.ts";
import { leaveKey, signOut } from "./api/session.ts";
import { day, short } from "./format.ts";
import { OWN_ZONE, zoneName } from "./schedule-words.ts";
import { Badge, Button, buttonClass, Callout, Skeleton, segmentClass } from "./ui/basics.tsx";
import { Icon, type IconName, Logo } from "./ui/icons.tsx";
import { ProblemNotice } from "./ui/problem.tsx";
import { confirmSaved, SavedNotice } from "./ui/saved.tsx";

/** The layout of every signed-in page: navigation, balance and account. It needs no answer of the API to be shown. */

const PAGES = [
  ["/", "Home", "home"],
  ["/runs", "Runs", "play"],
  ["/agents", "Agents", "agents"],
  ["/usage", "Usage", "usage"],
  ["/developers", "Developers", "keys"],
  ["/vault", "Vault", "secrets"],
  ["/billing", "Billing", "billing"],
] as const satisfies readonly (readonly [string, string, IconName])[];

const ENTRY =
  "flex items-center gap-2.5 rounded-md px-2.5 py-1.5 text-muted hover:bg-sunken hover:text-ink aria-[current=page]:bg-accent-soft aria-[current=page]:text-accent";

/** The page that connects a provider. */
const SETUP = "/operator/setup";
/** The built-in model, which answers from a script. */
const REHEARSAL = "purser/rehearsal";

export function Layout() {
  const [menu_open, setMenuOpen] = useState(false);
  const { pathname: path, href } = useRouterState({ select: (state) => state.location });
  const main = useRef<HTMLElement>(null);
  const find = useFind();
  const seen = useRef(path);
  useEffect(() => {
    if (seen.current === path) return;
    seen.current = path;
    main.current?.focus({ preventScroll: true }); // Screen readers continue at the new page.
  }, [path]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each new address closes the menu of a phone
  useEffect(() => setMenuOpen(false), [href]);
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
        <div className="flex items-center gap-1">
          <Button kind="quiet" icon="find" className="px-2" aria-label="Find" onClick={find.open} />
          <NoticesBell />
          <Button
            kind="quiet"
            aria-expanded={menu_open}
            aria-controls="navigation"
            onClick={() => setMenuOpen(!menu_open)}
            icon={menu_open ? "close" : "menu"}
          >
            Menu
          </Button>
        </div>
      </header>
      <aside
        id="navigation"
        aria-label="Navigation and account"
        className={`${menu_open ? "" : "max-md:hidden"} border-line bg-panel max-md:border-b md:sticky md:top-0 md:h-dvh md:border-r`}
      >
        <Navigation onFind={find.open} />
      </aside>
      <main
        ref={main}
        id="main"
        tabIndex={-1}
        className="mx-auto w-full max-w-6xl has-data-wide:max-w-[110rem] min-w-0 px-4 py-6 wrap-anywhere outline-none md:px-8 md:py-8"
      >
        <Page />
      </main>
      <SavedNotice />
      {find.dialog}
    </div>
  );
}

const FIND_KEYS = /Mac|iPhone|iPad/.test(navigator.userAgent) ? "⌘ K" : "Ctrl K";

/** The search over everything. Its code loads when it is first opened. */
function useFind() {
  const [Find, setFind] = useState<ComponentType<{ onClose: () => void }> | null>(null);
  const [is_open, setOpen] = useState(false);
  const open = useCallback(() => {
    import("./parts/find.tsx").then(
      (module) => {
        setFind(() => module.Find);
        setOpen(true);
      },
      () => confirmSaved("The search could not be loaded. Check your connection, then try again."),
    );
  }, []);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || event.ctrlKey === event.metaKey || event.altKey || event.shiftKey) return;
      event.preventDefault();
      if (document.querySelector("dialog[open]") === null) open();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [open]);
  return { open, dialog: Find !== null && is_open ? <Find onClose={() => setOpen(false)} /> : null };
}

/** The page, or the reason why the profile could not be loaded. */
function Page() {
  const profile = useQuery(profileQuery);
  if (profile.data === undefined) {
    if (!profile.isError) return <Skeleton lines={6} />;
    return (
      <div className="max-w-2xl space-y-4">
        <title>Something went wrong · Purser</title>
        <h1 className="text-xl font-semibold">Your account could not be loaded</h1>
        <ProblemNotice error={profile.error} onRetry={() => void profile.refetch()} />
      </div>
    );
  }
  return (
    <>
      <Banners balance={profile.data.balance} />
      <Suspense fallback={<Skeleton lines={6} />}>
        <Outlet />
      </Suspense>
    </>
  );
}

function Navigation({ onFind }: { onFind: () => void }) {
  const { data: profile } = useQuery({ ...profileQuery, enabled: false });
  return (
    <div className="flex h-full flex-col gap-1 overflow-y-auto p-3">
      <div className="mb-3 flex items-center justify-between max-md:hidden">
        <Link to="/" className="flex items-center gap-2.5 px-2 py-1.5 text-base font-semibold tracking-tight">
          <Logo /> Purser
        </Link>
        <NoticesBell />
      </div>
      <button
        type="button"
        onClick={onFind}
        className="mb-3 flex items-center gap-2.5 rounded-md border border-line px-2.5 py-1.5 text-muted hover:bg-sunken max-md:hidden"
      >
        <Icon name="find" /> Find <kbd className="ml-auto font-sans text-xs">{FIND_KEYS}</kbd>
      </button>
      <nav aria-label="Main" className="space-y-0.5">
        {PAGES.map(([to, name, icon]) => (
          <Link
            key={to}
            to={to}
            activeOptions={{ exact: to === "/", includeSearch: false }}
            className={`${ENTRY} font-medium`}
          >
            <Icon name={icon} /> {name}
          </Link>
        ))}
        {profile != null && profile.operator_role !== null && keyInUse() === null && (
          <Link to="/operator" activeOptions={{ includeSearch: false }} className={`${ENTRY} font-medium`}>
            <Icon name="shield" /> Operator
          </Link>
        )}
      </nav>
      <div className="mt-auto space-y-3 pt-6">
        {profile !== undefined && (
          <Link to="/billing" className="block rounded-lg border border-line px-3 py-2.5 hover:bg-sunken">
            <span className="block text-xs text-muted">Balance</span>
            <span className="text-base font-semibold">{short(profile.token_balance)}</span>{" "}
            <span className="text-muted">tokens</span>
            {profile.balance.held > 0 && (
              <span className="block text-xs text-muted">
                {short(profile.balance.held)} more held by running calls; what they do not use comes back
              </span>
            )}
            {profile.is_trial && profile.trial_ends_at !== null && (
              <span className="block text-xs text-muted">Trial until {day(profile.trial_ends_at)}</span>
            )}
          </Link>
        )}
        <ThemeChoice />
        <p className="px-2.5 text-xs text-muted">Time zone: {OWN_ZONE === "UTC" ? "UTC" : zoneName(OWN_ZONE)}</p>
        <Account email={profile?.email ?? "Your account"} />
      </div>
    </div>
  );
}

/** The creation time of the newest notice that the person has seen in this browser. */
const SEEN_KEY = "purser.notices_seen";

/** Opens the notices. A dot says that there are new ones. */
function NoticesBell() {
  const { data: profile } = useQuery({ ...profileQuery, enabled: false });
  const newest = useQuery({ ...newestNoticeQuery, enabled: profile !== undefined }).data ?? "";
  const is_open = useRouterState({ select: ({ location }) => location.pathname === "/notices" });
  const is_new = !is_open && newest > (localStorage.getItem(SEEN_KEY) ?? "");
  useEffect(() => {
    if (is_open && newest !== "") localStorage.setItem(SEEN_KEY, newest);
  }, [is_open, newest]);
  return (
    <Link
      to="/notices"
      aria-label={is_new ? "Notices, with new ones" : "Notices"}
      className={buttonClass(
        "quiet",
        "relative px-2 aria-[current=page]:bg-accent-soft aria-[current=page]:text-accent",
      )}
    >
      <Icon name="notices" />
      {is_new && <span className="absolute top-1.5 right-1.5 size-2 rounded-full bg-bad" />}
    </Link>
  );
}

function Account({ email }: { email: string }) {
  const with_key = keyInUse() !== null;
  const leave = useMutation({ mutationFn: () => (with_key ? leaveKey() : signOut()) });
  return (
    <div className="space-y-1 border-t border-line pt-2">
      {leave.error !== null && <ProblemNotice error={leave.error} />}
      {with_key ? (
        <p className="px-2.5 py-1 text-sm text-muted">
          <span className="block truncate">{email}</span>
          with an API key, until you reload this tab
        </p>
      ) : (
        <Link to="/account" className={ENTRY}>
          <Icon name="person" /> <span className="truncate">{email}</span>
        </Link>
      )}
      <button type="button" className={`${ENTRY} w-full`} onClick={() => leave.mutate()}>
        <Icon name="leave" /> {with_key ? "Forget the key" : "Sign out"}
      </button>
    </div>
  );
}

/** Messages that concern every page: no model provider, no tokens, simulated payments, debt. */
function Banners({ balance }: { balance: { available: number; held: number; debt: number } }) {
  const { available, held, debt } = balance;
  const is_empty = available <= 0 && held === 0;
  const { data: overage } = useQuery({ ...overageQuery, enabled: is_empty });
  const { data: offer } = useQuery(plansQuery);
  const { data: models } = useQuery(modelsQuery);
  const is_setup = useRouterState({ select: ({ location }) => location.pathname.startsWith(SETUP) });
  const no_provider = !is_setup && models?.every(({ id }) => id === REHEARSAL) === true;
  return (
    <div className="space-y-3 empty:hidden [&:not(:empty)]:mb-5">
      {no_provider && (
        <Callout tone="warn" icon="provider">
          <strong className="font-semibold">No model provider is connected.</strong> Agents answer with a script, the
          built-in model <code>{REHEARSAL}</code>. If you operate this service,{" "}
          <Link to={SETUP} className="underline">
            set it up
          </Link>
          .
        </Callout>
      )}
      {is_empty && overage?.enabled === false && (
        <Callout tone="warn" icon="billing">
          <strong className="font-semibold">No tokens are left.</strong> Runs, chats and requests fail until you have
          tokens.{" "}
          {offer?.payments === "none" ? (
            "Ask the operator of this service for tokens."
          ) : (
            <Link to="/billing" search={{ top_up: true }} className="underline">
              Buy tokens
            </Link>
          )}
        </Callout>
      )}
      {debt > 0 && (
        <Callout tone="warn" icon="billing">
          You spent {short(debt)} tokens of a payment that was later refunded. The next tokens you buy repay them first.
        </Callout>
      )}
      {offer?.payments === "sandbox" && (
        <p className="text-sm text-muted">
          <Badge tone="accent">Sandbox</Badge> Payments are simulated. Purchases move no money.
        </p>
      )}
    </div>
  );
}

const THEMES = [
  ["system", "Auto"],
  ["light", "Light"],
  ["dark", "Dark"],
] as const;
const STORAGE_KEY = "purser.theme";

/** Light, dark, or the system's setting. The browser stores the choice. */
function ThemeChoice() {
  const [theme, setTheme] = useState<string>(document.documentElement.dataset.theme ?? "system");
  const choose = (chosen: string) => {
    if (chosen === "system") {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem(STORAGE_KEY);
    } else {
      document.documentElement.dataset.theme = chosen;
      localStorage.setItem(STORAGE_KEY, chosen);
    }
    setTheme(chosen);
  };
  return (
    <fieldset className="flex justify-between rounded-lg bg-sunken p-0.5">
      <legend className="sr-only">Theme</legend>
      {THEMES.map(([value, name]) => (
        <button
          key={value}
          type="button"
          aria-pressed={theme === value}
          className={`flex-1 ${segmentClass(theme === value)}`}
          onClick={() => choose(value)}
        >
          {name}
        </button>
      ))}
    </fieldset>
  );
}
