import { useQuery } from "@tanstack/react-query";
import { type LinkProps, useNavigate } from "@tanstack/react-router";
import { Command } from "cmdk";
import { type ReactNode, useEffect, useState } from "react";
import { call } from "../api/client.ts";
import {
  anyRunQuery,
  explanationQuery,
  type FoundRun,
  foundAgentsQuery,
  foundRunsQuery,
  foundThreadsQuery,
  type RunDetail,
} from "../api/queries.ts";
import { ago, instant } from "../format.ts";
import { Status } from "../ui/basics.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { ITEM, SearchInput } from "../ui/picker.tsx";

/** Pages, agents, conversations, runs and requests by one search. */

const PAGES: readonly [name: string, to: LinkProps["to"], search?: Record<string, string>][] = [
  ["Home", "/"],
  ["Runs", "/runs"],
  ["Agents", "/agents"],
  ["New agent", "/agents/new"],
  ["Usage", "/usage"],
  ["API keys", "/developers/keys"],
  ["Connect a program", "/developers/connect"],
  ["Models and prices", "/developers/models"],
  ["Playground", "/developers/playground"],
  ["Requests", "/developers/requests"],
  ["Webhooks", "/developers/webhooks"],
  ["Vault: secrets", "/vault"],
  ["Billing: overview", "/billing"],
  ["Billing: ledger", "/billing", { tab: "ledger" }],
  ["Billing: plans", "/billing", { tab: "plans" }],
  ["Billing: overage", "/billing", { tab: "overage" }],
  ["Billing: payments", "/billing", { tab: "purchases" }],
  ["Billing: end users", "/billing", { tab: "end_users" }],
  ["Notices", "/notices"],
  ["Your account", "/account"],
];

/** How long the search waits for the next letter. */
const TYPING_MS = 150;
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;
/** Agents of the result. */
const AGENTS = 5;

const loggedRequestsQuery = (request_id: string) => ({
  queryKey: ["requests", "found", request_id],
  queryFn: ({ signal }: { signal: AbortSignal }) =>
    call("GET /api/v1/users/me/requests", { query: { request_id, limit: 1 }, signal }),
});

export function Find({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const [wanted, setWanted] = useState("");
  const [chosen, setChosen] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setWanted(text.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  // Enter must not open a result of an earlier text.
  const is_current = wanted === text.trim();
  const has_words = is_current && /[\p{L}\p{N}]/u.test(wanted);
  const is_id = is_current && UUID.test(wanted);
  const agents = useQuery({ ...foundAgentsQuery(wanted), enabled: has_words }).data?.agents ?? [];
  const runs = useQuery({ ...foundRunsQuery(wanted), enabled: has_words }).data ?? [];
  const threads = useQuery({ ...foundThreadsQuery(wanted), enabled: has_words }).data ?? [];
  const run = useQuery({ ...anyRunQuery(wanted), enabled: is_id }).data;
  const may_be_request = is_current && wanted.length >= 8 && !wanted.includes(" ");
  const request = useQuery({ ...explanationQuery(wanted), enabled: may_be_request }).data;
  // A rejected or failed request has no cost, so only the log has it.
  const logged = useQuery({ ...loggedRequestsQuery(wanted), enabled: may_be_request }).data?.requests ?? [];
  const shown_agents = has_words ? agents.slice(0, AGENTS) : [];
  const pages = PAGES.filter(([name]) => name.toLowerCase().includes(text.trim().toLowerCase()));
  const groups: readonly [title: string, items: readonly Item[]][] = [
    [
      "Agents",
      shown_agents.map(({ id, name }) => ({
        value: `agent ${id}`,
        link: { to: "/agents/$id", params: { id } },
        text: name,
      })),
    ],
    [
      "Conversations",
      [
        ...(has_words ? threads : []).map(({ id: thread, agent_id, agent_name, title, updated_at }) => ({
          value: `thread ${agent_id} ${thread}`,
          link: { to: "/agents/$id/chat" as const, params: { id: agent_id }, search: { thread } },
          text: (
            <>
              <span className="min-w-0 flex-1 truncate">{title}</span>
              <span className="max-w-1/3 shrink-0 truncate text-sm text-muted">
                {agent_name}, {ago(updated_at)}
              </span>
            </>
          ),
        })),
        ...shown_agents.map(({ id, name }) => ({
          value: `chat ${id}`,
          link: { to: "/agents/$id/chat" as const, params: { id } },
          text: `Conversations with ${name}`,
        })),
      ],
    ],
    ["Pages", pages.map(([name, to, search = {}]) => ({ value: name, link: { to, search }, text: name }))],
    ["Runs", [...(run === undefined || !is_id ? [] : [runById(run)]), ...(has_words ? foundRuns(runs, wanted) : [])]],
    [
      "Requests",
      [
        ...(logged.length === 0 || !may_be_request
          ? []
          : [
              {
                value: `logged ${wanted}`,
                link: { to: "/developers/requests", search: { request_id: wanted } } as const,
                text: `Request ${wanted}`,
              },
            ]),
        ...(request === undefined || !is_current
          ? []
          : [
              {
                value: `request ${wanted}`,
                link: { to: "/billing", search: { tab: "ledger", why: wanted } } as const,
                text: `Cost of the request ${wanted}`,
              },
            ]),
      ],
    ],
  ];
  const values = groups.flatMap(([, items]) => items.map(({ value }) => value));
  return (
    <Dialog title="Find" onClose={onClose} wide>
      <form onSubmit={(event) => event.preventDefault()}>
        <Command
          label="Find pages, agents, conversations, runs and requests"
          shouldFilter={false}
          // The first result is chosen until the person goes to another one.
          value={values.includes(chosen) ? chosen : (values[0] ?? "")}
          onValueChange={setChosen}
        >
          <SearchInput
            placeholder="A page, an agent, words of a conversation or run, or an id"
            value={text}
            onValueChange={(typed) => {
              setText(typed);
              setChosen("");
            }}
          />
          <Command.List className="max-h-[55dvh] overflow-y-auto">
            <Command.Empty className="px-2.5 py-3 text-muted">
              {is_current ? "Nothing has this text." : "Searching…"}
            </Command.Empty>
            {groups.map(
              ([title, items]) =>
                items.length > 0 && (
                  <Command.Group key={title} heading={title} className={GROUP}>
                    {items.map(({ value, link, text }) => (
                      <Command.Item
                        key={value}
                        value={value}
                        className={ITEM}
                        onSelect={() => {
                          onClose();
                          void navigate(link as LinkProps as never);
                        }}
                      >
                        {text}
                      </Command.Item>
                    ))}
                  </Command.Group>
                ),
            )}
          </Command.List>
        </Command>
      </form>
    </Dialog>
  );
}

interface Item {
  value: string;
  link: { to: LinkProps["to"]; params?: Record<string, string>; search?: Record<string, string> };
  text: ReactNode;
}

const GROUP =
  "mb-1 [&_[cmdk-group-heading]]:px-2.5 [&_[cmdk-group-heading]]:py-1 [&_[cmdk-group-heading]]:text-xs [&_[cmdk-group-heading]]:font-medium [&_[cmdk-group-heading]]:text-muted";

const runById = ({ id, agent_id, queued_at, status, has_errors }: RunDetail): Item => ({
  value: id,
  link: { to: "/agents/$id/runs/$run_id", params: { id: agent_id, run_id: id } },
  text: (
    <>
      Run of {instant(queued_at)} <Status status={status} has_errors={has_errors} />
    </>
  ),
});

function foundRuns(runs: readonly FoundRun[], q: string): Item[] {
  if (runs.length === 0) return [];
  return [
    ...runs.map(({ id, agent, queued_at, first_line, status, has_errors }) => ({
      value: id,
      link: { to: "/runs" as const, search: { q, run: id } },
      text: (
        <>
          <Status status={status} has_errors={has_errors} />
          <span className="shrink-0">{agent.name}</span>
          <span className="min-w-0 flex-1 truncate text-muted">{first_line}</span>
          <span className="shrink-0 text-sm text-muted">{instant(queued_at)}</span>
        </>
      ),
    })),
    { value: "all runs", link: { to: "/runs", search: { q } }, text: `All runs with “${q}”` },
  ];
}
