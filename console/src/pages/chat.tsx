import { useInfiniteQuery, useMutation, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type KeyboardEvent, type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { call } from "../api/client.ts";
import {
  agentQuery,
  type ListedThread,
  type RunDetail,
  runPromptQuery,
  runQuery,
  stale,
  type ThreadMessage,
  threadQuery,
  threadRecordQuery,
  threadsQuery,
} from "../api/queries.ts";
import { keepOpenWhile } from "../api/session.ts";
import { isOwnName, type Turn, useTurn } from "../api/turn.ts";
import { ago, count, dollars, instant } from "../format.ts";
import { DecideProblem, RequiredActions, useDecide } from "../parts/approvals.tsx";
import { hasEnded } from "../run-words.ts";
import { Button, Card, Empty, PageHeader, Spinner } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { onSubmit } from "../ui/fields.tsx";
import { Icon } from "../ui/icons.tsx";
import { Markdown } from "../ui/markdown.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

/** How often the run of a turn without an answer is read. */
const OPEN_TURN_MS = 2_000;

/** A chat with an agent: the stored conversation and the current turn. */
export function ChatPage() {
  const { id } = useParams({ from: "/signed-in/agents/$id/chat" });
  const { thread } = useSearch({ from: "/signed-in/agents/$id/chat" });
  const { data: agent } = useSuspenseQuery(agentQuery(id));
  const [deleting, setDeleting] = useState(false);
  const { key, onBegun } = useConversationKey(thread);
  const navigate = useNavigate();
  const remove = async () => {
    if (thread === undefined) return;
    await call("DELETE /api/v1/agents/{id}/threads/{thread_id}", { params: { id, thread_id: thread } });
    await navigate({ to: "/agents/$id/chat", params: { id } });
    await stale("threads");
  };
  return (
    <>
      <nav aria-label="Breadcrumb" className="mb-1 text-sm text-muted">
        <Link to="/agents/$id" params={{ id }} className="hover:underline">
          ← {agent.name}
        </Link>
      </nav>
      <PageHeader title={`Chat with ${agent.name}`}>
        {thread !== undefined && (
          <>
            <Link to="/agents/$id/chat" params={{ id }} className="link">
              New conversation
            </Link>
            <Button kind="quiet" icon="trash" onClick={() => setDeleting(true)}>
              Delete conversation
            </Button>
          </>
        )}
      </PageHeader>
      <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_16rem]">
        <Conversation key={key} id={id} thread={thread} onBegun={onBegun} />
        <Threads id={id} thread={thread} />
      </div>
      {deleting && (
        <Confirm
          title="Delete this conversation?"
          action="Delete conversation"
          saved="Conversation deleted"
          onConfirm={remove}
          onClose={() => setDeleting(false)}
        >
          The agent forgets it. Its runs and their charges stay in the history.
        </Confirm>
      )}
    </>
  );
}

/** A key for each conversation. A new one keeps its key when it gets its id, so its field keeps the typed text. */
function useConversationKey(thread: string | undefined) {
  const begun = useRef<string>(undefined);
  const [shown, setShown] = useState({ thread, key: 0 });
  if (shown.thread !== thread) {
    const is_same = shown.thread === undefined && thread === begun.current;
    setShown({ thread, key: is_same ? shown.key : shown.key + 1 });
  }
  const onBegun = (thread_id: string) => {
    begun.current = thread_id;
  };
  return { key: shown.key, onBegun };
}

function Threads({ id, thread }: { id: string; thread: string | undefined }) {
  const list = useInfiniteQuery(threadsQuery(id));
  const listed = list.data?.pages.flatMap((page) => page.rows) ?? [];
  const is_listed = thread === undefined || listed.some((row) => row.id === thread);
  // A search may have opened one that is older than those of the list.
  const older = useQuery({ ...threadRecordQuery(id, thread ?? ""), enabled: list.isSuccess && !is_listed }).data;
  const rows = is_listed || older === undefined ? listed : [older, ...listed];
  return (
    <Card title="Conversations" flush>
      {list.isError && (
        <div className="px-4 pb-4">
          <ProblemNotice
            error={list.error}
            onRetry={() => void (list.isFetchNextPageError ? list.fetchNextPage() : list.refetch())}
          />
        </div>
      )}
      {rows.length === 0 ? (
        !list.isError && <p className="px-4 pb-4 text-muted">{list.isPending ? "Loading" : "No conversations yet."}</p>
      ) : (
        <ul className="pb-1.5">
          {rows.map((row) => (
            <ThreadRow key={row.id} row={row} is_shown={row.id === thread} />
          ))}
        </ul>
      )}
      {list.hasNextPage && (
        <div className="border-t border-line p-2 text-center">
          <Button kind="quiet" busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
            Show more
          </Button>
        </div>
      )}
    </Card>
  );
}

/** A conversation of the list. The one on the page can be renamed. */
function ThreadRow({ row, is_shown }: { row: ListedThread; is_shown: boolean }) {
  const { id: thread, agent_id: id, title, created_at, updated_at } = row;
  const [renaming, setRenaming] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const onClose = () => {
    flushSync(() => setRenaming(false));
    button.current?.focus();
  };
  if (renaming && is_shown) return <RenameThread row={row} onClose={onClose} />;
  const name = title ?? (isOwnName(thread) ? instant(created_at) : thread);
  return (
    <li className={`flex ${is_shown ? "bg-accent-soft" : ""}`}>
      <Link
        to="/agents/$id/chat"
        params={{ id }}
        search={{ thread }}
        aria-current={is_shown ? "true" : undefined}
        className={`flex min-w-0 flex-1 justify-between gap-2 py-1.5 pl-4 ${is_shown ? "" : "pr-4 hover:bg-sunken"}`}
      >
        <span dir="auto" title={name} className="truncate">
          {name}
        </span>
        <span className="text-sm whitespace-nowrap text-muted">{ago(updated_at)}</span>
      </Link>
      {is_shown && (
        <button
          ref={button}
          type="button"
          aria-label="Rename conversation"
          onClick={() => setRenaming(true)}
          className="px-2.5 text-muted hover:text-ink"
        >
          <Icon name="edit" />
        </button>
      )}
    </li>
  );
}

function RenameThread({ row, onClose }: { row: ListedThread; onClose: () => void }) {
  const [title, setTitle] = useState(row.title ?? "");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  const rename = useMutation({
    mutationFn: () => {
      const params = { id: row.agent_id, thread_id: row.id };
      return call("PATCH /api/v1/agents/{id}/threads/{thread_id}", { params, body: { title: title.trim() } });
    },
    onSuccess: async () => {
      await stale("threads");
      onClose();
    },
  });
  return (
    <li className="bg-accent-soft px-2 py-1.5">
      <form onSubmit={onSubmit(rename.mutate)} className="flex gap-1">
        <input
          ref={field}
          aria-label="Title"
          dir="auto"
          maxLength={200}
          className="control"
          value={title}
          onChange={(event) => setTitle(event.target.value)}
          onKeyDown={(event) => event.key === "Escape" && onClose()}
        />
        <Button
          type="submit"
          kind="primary"
          icon="check"
          aria-label="Save title"
          className="px-2"
          busy={rename.isPending}
          disabled={title.trim() === ""}
        />
        <Button icon="close" aria-label="Cancel" className="px-2" onClick={onClose} />
      </form>
      {rename.error !== null && <ProblemNotice error={rename.error} />}
    </li>
  );
}

interface ConversationProps {
  id: string;
  /** undefined: a new conversation. */
  thread: string | undefined;
  /** Gets the id of a new conversation before the address has it. */
  onBegun: (thread_id: string) => void;
}
function Conversation({ id, thread, onBegun }: ConversationProps) {
  const kept = useInfiniteQuery({ ...threadQuery(id, thread ?? ""), enabled: thread !== undefined });
  const navigate = useNavigate();
  const is_open = useIsOpen();
  const { turn, ask, stop, clear } = useTurn(id, thread, async (thread_id) => {
    await stale("thread", "threads", "profile", "runs");
    // The person may have gone to another page meanwhile, and stays there.
    if (thread !== undefined || !is_open.current) return;
    onBegun(thread_id);
    const search = { thread: thread_id };
    await navigate({ to: "/agents/$id/chat", params: { id }, search, replace: true, resetScroll: false });
  });
  useEffect(() => keepOpenWhile(() => turn !== null && turn.error !== null), [turn]);
  const { log, end, follow } = useFollow();
  const pages = kept.data?.pages ?? [];
  const messages = pages.toReversed().flatMap(({ rows }) => rows.filter(isShown));
  const loadEarlier = useLoadEarlier(pages.length, () => kept.fetchNextPage());
  const open = useOpenTurn({ id, thread, turn, messages: kept.isSuccess ? messages : null });
  const known = turn?.run_id !== null && messages.some(({ run_id }) => run_id === turn?.run_id);
  const shown = known ? null : turn;
  const empty = messages.length === 0 && shown === null && open === null && !kept.isLoading;
  return (
    <section className="flex min-h-[65dvh] min-w-0 flex-col rounded-xl border border-line bg-panel">
      <div ref={log} className="flex-1 space-y-4 p-4" role="log" aria-label="Conversation">
        {kept.isError && (
          <ProblemNotice
            error={kept.error}
            onRetry={() => void (kept.isFetchNextPageError ? kept.fetchNextPage() : kept.refetch())}
          />
        )}
        {kept.hasNextPage && (
          <div className="text-center">
            <Button kind="quiet" busy={kept.isFetchingNextPage} onClick={loadEarlier}>
              Load earlier messages
            </Button>
          </div>
        )}
        {empty && (
          <Empty icon="chat" title="Write a message">
            Each answer is a run of the agent. You can stop it, and you see its cost and its steps.
          </Empty>
        )}
        {messages.map(({ role, content, run_id, turn_cost_tokens }, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: counted from the end, so earlier messages keep the keys
          <Message key={`${run_id} ${messages.length - place}`} by={role === "user" ? "user" : "agent"}>
            {role === "user" ? String(content) : <Markdown text={String(content)} />}
            {messages[place + 1]?.run_id !== run_id && <RunLink id={id} run_id={run_id} cost={turn_cost_tokens} />}
          </Message>
        ))}
        {shown !== null && (
          <>
            <Message by="user">{shown.question}</Message>
            {(shown.answer !== "" || shown.going || shown.stopped) && (
              <Message by="agent">
                <Markdown text={shown.answer} />
                {shown.going && (
                  <span className="ml-1 inline-block align-middle text-muted">
                    <Spinner />
                    <span className="sr-only">The agent is answering</span>
                  </span>
                )}
                {shown.stopped && (
                  <span className="block text-sm text-muted">
                    Stopped. This part of the answer is billed and not stored.
                  </span>
                )}
                {!shown.going && <RunLink id={id} run_id={shown.run_id} cost={shown.cost_tokens} />}
              </Message>
            )}
            {shown.error !== null && <ProblemNotice error={shown.error} onRetry={() => ask(shown.question)} />}
          </>
        )}
        {open !== null && <OpenTurn run={open} is_asked_here={shown !== null} />}
        <div ref={end} className="scroll-mb-28" />
      </div>
      <Composer
        going={shown?.going === true}
        onAsk={(text) => {
          clear();
          follow();
          ask(text);
        }}
        onStop={stop}
      />
    </section>
  );
}

interface OpenTurnFacts {
  id: string;
  thread: string | undefined;
  turn: Turn | null;
  /** null: they are not loaded. */
  messages: readonly ThreadMessage[] | null;
}
/** The run of the last turn while that has no answer: it waits for a decision, or goes on after one. */
function useOpenTurn({ id, thread, turn, messages }: OpenTurnFacts): RunDetail | null {
  const threads = useInfiniteQuery(threadsQuery(id));
  const rows = threads.data?.pages.flatMap((page) => page.rows) ?? [];
  const last_run_id = rows.find((row) => row.id === thread)?.last_run_id ?? null;
  const run_id = turn === null ? last_run_id : turn.waits ? turn.run_id : null;
  const has_answer = messages === null || messages.some((message) => message.run_id === run_id);
  const { data: run } = useQuery({
    ...runQuery(id, run_id ?? ""),
    enabled: run_id !== null && !has_answer,
    refetchInterval: ({ state: { data } }) => (data === undefined || hasEnded(data.status) ? false : OPEN_TURN_MS),
  });
  const is_over = run !== undefined && hasEnded(run.status);
  useEffect(() => {
    if (is_over) void stale("thread", "threads", "profile");
  }, [is_over]);
  return run === undefined || has_answer || is_over ? null : run;
}

/** What a turn waits for. `is_asked_here`: the page shows its message. */
function OpenTurn({ run, is_asked_here }: { run: RunDetail; is_asked_here: boolean }) {
  const { id: run_id, agent_id: id, required_actions } = run;
  const decide = useDecide();
  const { data: sent = [] } = useQuery({ ...runPromptQuery(id, run_id), enabled: !is_asked_here });
  const question = sent.findLast(({ role }) => role === "user")?.content ?? null;
  return (
    <>
      {question !== null && !is_asked_here && <Message by="user">{question}</Message>}
      <Message by="agent">
        <div className="space-y-3" aria-live="polite">
          <DecideProblem decide={decide} />
          {required_actions.length === 0 ? (
            <span className="text-muted">
              <Spinner />
              <span className="sr-only">The agent is answering</span>
            </span>
          ) : (
            <>
              <p>The agent waits for your decision, at no cost.</p>
              {/* Without the text that the agent had read, which the page has beside the call. */}
              <RequiredActions run={{ id: run_id, agent_id: id, required_actions }} decide={decide} />
              <Link to="/agents/$id/runs/$run_id/decide" params={{ id, run_id }} className="link">
                See what the agent had read before
              </Link>
            </>
          )}
        </div>
      </Message>
    </>
  );
}

/** Whether the component is on the page, for work that ends later. */
function useIsOpen() {
  const is_open = useRef(false);
  useEffect(() => {
    is_open.current = true;
    return () => {
      is_open.current = false;
    };
  }, []);
  return is_open;
}

const isShown = ({ role, content }: ThreadMessage) =>
  (role === "user" || role === "assistant") && typeof content === "string" && content !== "";

/** Keeps the end of a growing conversation above the composer, unless the person has scrolled up to read. */
function useFollow() {
  const log = useRef<HTMLDivElement>(null);
  const end = useRef<HTMLDivElement>(null);
  const is_following = useRef(true);
  useEffect(() => {
    let last_y = scrollY;
    const onScroll = () => {
      const is_in_view = (end.current?.getBoundingClientRect().top ?? 0) <= innerHeight;
      if (is_in_view) is_following.current = true;
      else if (scrollY < last_y) is_following.current = false;
      last_y = scrollY;
    };
    const grown = new ResizeObserver(() => {
      if (is_following.current) end.current?.scrollIntoView({ block: "nearest" });
    });
    if (log.current !== null) grown.observe(log.current);
    addEventListener("scroll", onScroll, { passive: true });
    return () => {
      grown.disconnect();
      removeEventListener("scroll", onScroll);
    };
  }, []);
  const follow = () => {
    is_following.current = true;
  };
  return { log, end, follow };
}

/** Loads the page before the first message. The messages on the screen keep their position. */
function useLoadEarlier(pages: number, fetchPage: () => Promise<unknown>) {
  const height = useRef<number | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs after a page was added
  useLayoutEffect(() => {
    if (height.current !== null) scrollBy(0, document.documentElement.scrollHeight - height.current);
    height.current = null;
  }, [pages]);
  return () => {
    height.current = document.documentElement.scrollHeight;
    void fetchPage();
  };
}

function Message({ by, children }: { by: "user" | "agent"; children: ReactNode }) {
  const own = by === "user";
  return (
    <div className={own ? "flex justify-end" : ""}>
      <div
        className={`max-w-[85%] min-w-0 wrap-anywhere ${own ? "rounded-2xl rounded-br-md bg-accent-soft px-3.5 py-2 whitespace-pre-wrap" : ""}`}
      >
        <span className="sr-only">{own ? "You:" : "Agent:"} </span>
        {own ? <div dir="auto">{children}</div> : children}
      </div>
    </div>
  );
}

/** The cost of a turn, with its run. */
function RunLink({ id, run_id, cost }: { id: string; run_id: string | null; cost: number | null }) {
  if (run_id === null) return null;
  return (
    <Link
      to="/agents/$id/runs/$run_id"
      params={{ id, run_id }}
      className="mt-1 flex w-fit items-center gap-1 text-xs text-muted hover:underline"
    >
      {cost === null ? "View run" : `${dollars(cost)} (${count(cost, "token")}), view run`}{" "}
      <Icon name="arrow" className="size-3" />
    </Link>
  );
}

function Composer({ going, onAsk, onStop }: { going: boolean; onAsk: (text: string) => void; onStop: () => void }) {
  const [text, setText] = useState("");
  useEffect(() => keepOpenWhile(() => text.trim() !== ""), [text]);
  const submit = () => {
    if (text.trim() === "" || going) return;
    onAsk(text.trim());
    setText("");
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    submit();
  };
  return (
    <form
      onSubmit={onSubmit(submit)}
      className="sticky bottom-0 flex items-end gap-2 rounded-b-xl border-t border-line bg-panel p-3"
    >
      <textarea
        aria-label="Your message"
        dir="auto"
        placeholder="Your message (Enter sends, Shift+Enter is a new line)"
        rows={2}
        className="control field-sizing-content max-h-48"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKey}
      />
      {going ? (
        <Button kind="danger" icon="stop" onClick={onStop}>
          Stop
        </Button>
      ) : (
        <Button type="submit" kind="primary" icon="send" disabled={text.trim() === ""}>
          Send
        </Button>
      )}
    </form>
  );
}
