import { chatWithAgent } from "../../api/contract/agents.ts";
import type { LiveCaller, RequestFacts } from "../../api/contract/caller.ts";
import { decodeCursor, encodeCursor, NUMBER_KEY, pageOf, UUID_KEY } from "../../api/contract/common.ts";
import { createRouter, events, json, noContent, type Router } from "../../api/contract/endpoint.ts";
import { changesIn } from "../../api/contract/read-only.ts";
import * as threadContract from "../../api/contract/threads.ts";
import { createChatWriter } from "../../gateway/completions/chat-writer.ts";
import { lostAccess, writtenEvents } from "../../gateway/completions/endpoint.ts";
import { newId } from "../../platform/lib/ids.ts";
import { raceAbort } from "../../platform/lib/race-abort.ts";
import type { Chat } from "./chat.service.ts";
import { agentAnswer, type FinishedTurn } from "./chat-answer.ts";
import { createChatEvents } from "./chat-events.ts";
import type { AgentThreads } from "./threads.service.ts";

/** Conversations with agents: contract 6. */
export function chatRoutes({ chat }: { chat: Chat }): Router {
  const router = createRouter();
  addChat(router, chat);
  addThreads(router, chat.threads);
  return router;
}

function addChat(router: Router, chat: Chat): void {
  router.on(chatWithAgent, async (request) => {
    const { caller, facts, request_id, body: asked } = request;
    const { id } = request.params;
    const live = request.watchCaller();
    if (!asked.stream) {
      const signal = AbortSignal.any([request.hungUp(), live.refused]);
      const turn = await chat.turn(caller, id, asked, { request_id, signal, onText: null });
      const finished = await unlessRefused(turn.finished, live);
      noteTurn(facts, finished);
      return json(agentAnswer(finished));
    }
    const told = createChatEvents();
    const signal = AbortSignal.any([request.hungUp(), told.left, live.refused]);
    const turn = await chat.turn(caller, id, asked, { request_id, signal, onText: told.onText });
    const parts = await unlessRefused(told.open(turn), live);
    const writer = createChatWriter({ request_id, include_usage: false });
    const feed = writtenEvents({ next: () => parts.next(), leave: told.leave }, writer);
    facts.broken = () => lostAccess(live) ?? feed.failure();
    void turn.finished.then(
      (finished) => noteTurn(facts, finished),
      () => {},
    );
    return events(feed, { live, request_id });
  });
}

/** The model and the cost for the request's log line. */
function noteTurn(facts: RequestFacts, { run, usage }: FinishedTurn): void {
  const { total_tokens: tokens, cost_tokens } = usage;
  facts.answered = () => ({ model: run.model_id ?? "auto", provider: null, tokens, cost_tokens });
}

/** Rejects with 401 or 403 once the caller is refused. A revoked key cancels the run too, and that may come first. */
async function unlessRefused<T>(work: Promise<T>, live: LiveCaller): Promise<T> {
  try {
    return await raceAbort(work, live.refused);
  } catch (error) {
    await live.check();
    live.refused.throwIfAborted();
    throw error;
  }
}

function addThreads(router: Router, threads: AgentThreads): void {
  router.on(threadContract.createThread, async (request) => {
    const thread_id = request.body.id ?? newId();
    return json(await threads.create(request.caller.user_id, request.params.id, thread_id), 201);
  });
  router.on(threadContract.listThreads, async (request) => {
    const { limit, cursor } = request.query;
    const before_uid = decodeCursor(cursor, UUID_KEY);
    const { user_id } = request.caller;
    const listed = await threads.list(user_id, request.params.id, { limit: limit + 1, before_uid });
    const { page, next_cursor } = pageOf(listed, limit, ({ position }) => position);
    return json({ threads: page.map(({ record }) => record), next_cursor });
  });
  router.on(threadContract.listAllThreads, async ({ caller, query: { limit, cursor, agent_id, q } }) => {
    const before_uid = decodeCursor(cursor, UUID_KEY);
    const listed = await threads.listAll(caller.user_id, { agent_id, q }, { limit: limit + 1, before_uid });
    const { page, next_cursor } = pageOf(listed, limit, ({ position }) => position);
    return json({ threads: page.map(({ record, agent_name }) => ({ ...record, agent_name })), next_cursor });
  });
  router.on(threadContract.getThread, async (request) => {
    const { id, thread_id } = request.params;
    const { limit, cursor } = request.query;
    const key = decodeCursor(cursor, NUMBER_KEY);
    const page = { thread_id, limit, before_turn: key === null ? null : Number(key) };
    const { record, earlier } = await threads.detail(request.caller.user_id, id, page);
    return json({ ...record, next_cursor: earlier === null ? null : encodeCursor(earlier) });
  });
  router.on(threadContract.updateThread, async ({ caller, params: { id, thread_id }, body }) => {
    const record = () => threads.get(caller.user_id, id, thread_id);
    const { title } = await changesIn(body, threadContract.THREAD_READ_ONLY, record);
    return json(await threads.rename(caller.user_id, id, { thread_id, title }));
  });
  router.on(threadContract.deleteThread, async (request) => {
    const { id, thread_id } = request.params;
    await threads.remove(request.caller.user_id, id, thread_id);
    return noContent();
  });
}
