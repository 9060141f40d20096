import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type FormEvent, type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { call } from "../api/client.ts";
import { agentQuery, stale, threadQuery, threadsQuery } from "../api/queries.ts";
import { isOwnName, useTurn } from "../api/turn.ts";
import { ago, instant, number } from "../format.ts";
import { Button, Card, Empty, PageHeader, Spinner } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { useFirstPage } from "../ui/first-page.ts";
import { Icon } from "../ui/icons.tsx";
import { Markdown } from "../ui/markdown.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

/** Talking with an agent. The service keeps the thread; what is shown is what it has kept, and the turn under way. */
export function ChatPage() {
  const { id } = useParams({ from: "/house/agents/$id/chat" });
  const { thread } = useSearch({ from: "/house/agents/$id/chat" });
  const { data: agent } = useSuspenseQuery(agentQuery(id));
  const [forgetting, setForgetting] = useState(false);
  const navigate = useNavigate();
  const forget = async () => {
    if (thread === undefined) return;
    await call("DELETE /api/v1/agents/{id}/threads/{thread_id}", { params: { id, thread_id: thread } });
    await navigate({ to: "/agents/$id/chat", params: { id } });
    await stale("threads");
  };
  return (
    <>
      <nav aria-label="Where you are" className="mb-1 text-sm text-muted">
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
            <Button kind="quiet" icon="trash" onClick={() => setForgetting(true)}>
              Forget this one
            </Button>
          </>
        )}
      </PageHeader>
      <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_16rem]">
        <Conversation key={thread ?? "new"} id={id} thread={thread} />
        <Threads id={id} thread={thread} />
      </div>
      {forgetting && (
        <Confirm title="Forget this conversation?" act="Forget it" onAct={forget} onClose={() => setForgetting(false)}>
          The agent will not remember it. Its runs and what they cost stay in the history.
        </Confirm>
      )}
    </>
  );
}

function Threads({ id, thread }: { id: string; thread: string | undefined }) {
  const { rows, isPending } = useFirstPage(threadsQuery(id));
  return (
    <Card title="Conversations" flush>
      {rows.length === 0 ? (
        <p className="px-4 pb-4 text-muted">{isPending ? "Loading" : "None yet."}</p>
      ) : (
        <ul className="pb-1.5">
          {rows.map(({ id: thread_id, created_at, updated_at }) => (
            <li key={thread_id}>
              <Link
                to="/agents/$id/chat"
                params={{ id }}
                search={{ thread: thread_id }}
                aria-current={thread_id === thread ? "true" : undefined}
                className="flex justify-between gap-2 px-4 py-1.5 hover:bg-sunken aria-[current=true]:bg-accent-soft"
              >
                <span className="truncate">{isOwnName(thread_id) ? instant(created_at) : thread_id}</span>
                <span className="text-sm whitespace-nowrap text-muted">{ago(updated_at)}</span>
              </Link>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function Conversation({ id, thread }: { id: string; thread: string | undefined }) {
  const kept = useQuery({ ...threadQuery(id, thread ?? ""), enabled: thread !== undefined });
  const navigate = useNavigate();
  const { turn, ask, stop, clear } = useTurn(id, thread, async (thread_id) => {
    await stale("thread", "threads", "profile", "runs");
    if (thread === undefined)
      await navigate({ to: "/agents/$id/chat", params: { id }, search: { thread: thread_id }, replace: true });
  });
  const end = useRef<HTMLDivElement>(null);
  const messages = (kept.data?.messages ?? []).filter(
    ({ role, content }) => (role === "user" || role === "assistant") && typeof content === "string" && content !== "",
  );
  const known = turn?.run_id !== null && messages.some(({ run_id }) => run_id === turn?.run_id);
  const shown = known ? null : turn;
  // biome-ignore lint/correctness/useExhaustiveDependencies: what has come since is a reason to scroll
  useEffect(() => {
    end.current?.scrollIntoView({ block: "nearest" });
  }, [messages.length, shown?.answer]);
  const empty = messages.length === 0 && shown === null && !kept.isLoading;
  return (
    <section className="flex min-h-[65dvh] flex-col rounded-xl border border-line bg-panel">
      <div className="flex-1 space-y-4 p-4" role="log" aria-label="Conversation">
        {kept.isError && <ProblemNotice error={kept.error} onRetry={() => void kept.refetch()} />}
        {empty && (
          <Empty icon="chat" title="Say something">
            Each turn is a run of the agent: it is metered, it can be stopped, and its steps can be looked at
            afterwards.
          </Empty>
        )}
        {messages.map(({ role, content, run_id }, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a turn can have several messages of one run; they only grow
          <Message key={`${run_id} ${place}`} by={role === "user" ? "user" : "agent"}>
            {role === "user" ? String(content) : <Markdown text={String(content)} />}
            {role === "assistant" && <RunLink id={id} run_id={run_id} />}
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
                    Stopped. What was said until then is billed and not kept.
                  </span>
                )}
                {!shown.going && <RunLink id={id} run_id={shown.run_id} cost={shown.cost_tokens} />}
              </Message>
            )}
            {shown.error !== null && <ProblemNotice error={shown.error} onRetry={() => ask(shown.question)} />}
          </>
        )}
        <div ref={end} />
      </div>
      <Composer
        going={shown?.going === true}
        onAsk={(text) => {
          clear();
          ask(text);
        }}
        onStop={stop}
      />
    </section>
  );
}

function Message({ by, children }: { by: "user" | "agent"; children: ReactNode }) {
  const own = by === "user";
  return (
    <div className={own ? "flex justify-end" : ""}>
      <div
        className={`max-w-[85%] break-words ${own ? "rounded-2xl rounded-br-md bg-accent-soft px-3.5 py-2 whitespace-pre-wrap" : ""}`}
      >
        <span className="sr-only">{own ? "You:" : "Agent:"} </span>
        {children}
      </div>
    </div>
  );
}

function RunLink({ id, run_id, cost = null }: { id: string; run_id: string | null; cost?: number | null }) {
  if (run_id === null) return null;
  return (
    <Link
      to="/agents/$id/runs/$run_id"
      params={{ id, run_id }}
      className="mt-1 flex w-fit items-center gap-1 text-xs text-muted hover:underline"
    >
      {cost === null ? "its run" : `${number(cost)} tokens, its run`} <Icon name="arrow" className="size-3" />
    </Link>
  );
}

function Composer({ going, onAsk, onStop }: { going: boolean; onAsk: (text: string) => void; onStop: () => void }) {
  const [text, setText] = useState("");
  const submit = (event?: FormEvent) => {
    event?.preventDefault();
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
      onSubmit={submit}
      className="sticky bottom-0 flex items-end gap-2 rounded-b-xl border-t border-line bg-panel p-3"
    >
      <textarea
        aria-label="Your message"
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
