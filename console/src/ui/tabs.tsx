import { Link, type LinkProps } from "@tanstack/react-router";

interface Tab {
  name: string;
  chosen: boolean;
  to: LinkProps["to"];
  params?: Record<string, string>;
  search: Record<string, unknown>;
}

/** Parts of a page, each with its address: links, so that they open in a new tab and go back. */
export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  return (
    <nav aria-label={label} className="mb-4 flex gap-1 overflow-x-auto border-b border-line">
      {tabs.map(({ name, chosen, ...link }) => (
        <Link
          key={name}
          {...(link as LinkProps)}
          replace
          resetScroll={false}
          aria-current={chosen ? "true" : undefined}
          activeProps={{}}
          className={`-mb-px border-b-2 px-3 py-2 font-medium whitespace-nowrap max-md:px-2 ${chosen ? "border-accent text-ink" : "border-transparent text-muted hover:text-ink"}`}
        >
          {name}
        </Link>
      ))}
    </nav>
  );
}
