import type { Context } from "hono";
import { chatWithAgent } from "../../api/contract/agents.ts";
import type { HttpEnv, LiveCaller } from "../../api/contract/caller.ts";
import { decodeCursor, encodeCursor, NUMBER_KEY, pageOf, UUID_KEY } from "../../api/contract/common.ts";
import { streamOf } from "../../api/contract/hot-endpoint.ts";
import { createRouter, type HttpRouter } from "../../api/contract/router.ts";
import * as threadContract from "../../api/contract/threads.ts";
import { createChatWriter } from "../../gateway/completions/chat-writer.ts";
import { lostAccess, writtenEvents } from "../../gateway/completions/endpoint.ts";
import { newId } from "../../platform/lib/ids.ts";
import { raceAbort } from "../../platform/lib/race-abort.ts";
import type { Chat } from "./chat.service.ts";
import { chatAnswer, type FinishedTurn } from "./chat-answer.ts";
import { createChatEvents } from "./chat-events.ts";
import type { AgentThreads } from "./threads.service.ts";

/** Conversations with agents: contract 6. */
export function chatRoutes({ chat }: { chat: Chat }): HttpRouter {
  const router = createRouter();
  addChat(router, chat);
  addThreads(router, chat.threads);
  return router;
}

function addChat(router: HttpRouter, chat: Chat): void {
  router.openapi(chatWithAgent, async (c) => {
    const asked = c.req.valid("json");
    const { id } = c.req.valid("param");
    const request = { request_id: c.get("request_id"), signal: c.req.raw.signal };
    const live = c.get("live_caller")();
    if (!asked.stream) {
      const signal = AbortSignal.any([request.signal, live.refused]);
      const turn = await chat.turn(c.get("caller"), id, asked, { ...request, signal, onText: null });
      const finished = await unlessRefused(turn.finished, live);
      noteTurn(c, finished);
      return c.json(chatAnswer(finished), 200) as never;
    }
    const events = createChatEvents();
    const signal = AbortSignal.any([request.signal, events.left, live.refused]);
    const turn = await chat.turn(c.get("caller"), id, asked, { ...request, signal, onText: events.onText });
    const parts = await unlessRefused(events.open(turn), live);
    const writer = createChatWriter({ request_id: request.request_id, include_usage: false });
    const feed = writtenEvents({ next: () => parts.next(), leave: events.leave }, writer);
    c.get("facts").broken = () => lostAccess(live) ?? feed.failure();
    void turn.finished.then(
      (finished) => noteTurn(c, finished),
      () => {},
    );
    return streamOf(c, feed, { live, request_id: request.request_id }) as never;
  });
}

/** The model and the cost for the request's log line. */
function noteTurn(c: Context<HttpEnv>, { run, usage }: FinishedTurn): void {
  const { total_tokens: tokens, cost_tokens } = usage;
  c.get("facts").answered = () => ({ model: run.model_id ?? "auto", provider: null, tokens, cost_tokens });
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

function addThreads(router: HttpRouter, threads: AgentThreads): void {
  router.openapi(threadContract.createThread, async (c) => {
    const thread_id = c.req.valid("json").id ?? newId();
    return c.json(await threads.create(c.get("caller").user_id, c.req.valid("param").id, thread_id), 201);
  });
  router.openapi(threadContract.listThreads, async (c) => {
    const { limit, cursor } = c.req.valid("query");
    const before_uid = decodeCursor(cursor, UUID_KEY);
    const { user_id } = c.get("caller");
    const listed = await threads.list(user_id, c.req.valid("param").id, { limit: limit + 1, before_uid });
    const { page, next_cursor } = pageOf(listed, limit, ({ position }) => position);
    return c.json({ threads: page.map(({ record }) => record), next_cursor }, 200);
  });
  router.openapi(threadContract.getThread, async (c) => {
    const { id, thread_id } = c.req.valid("param");
    const { limit, cursor } = c.req.valid("query");
    const key = decodeCursor(cursor, NUMBER_KEY);
    const page = { thread_id, limit, before_turn: key === null ? null : Number(key) };
    const { record, earlier } = await threads.detail(c.get("caller").user_id, id, page);
    return c.json({ ...record, next_cursor: earlier === null ? null : encodeCursor(earlier) }, 200);
  });
  router.openapi(threadContract.deleteThread, async (c) => {
    const { id, thread_id } = c.req.valid("param");
    await threads.remove(c.get("caller").user_id, id, thread_id);
    return c.body(null, 204);
  });
}
