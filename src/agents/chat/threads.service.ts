import { thatFit } from "../../api/contract/common.ts";
import type { ChatMessage } from "../../api/contract/completions.ts";
import type { ThreadDetail, ThreadRecord } from "../../api/contract/threads.ts";
import type { Models } from "../../gateway/models/models.service.ts";
import { USER_ROWS } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import { hasMoreRows } from "../../platform/db/statements.ts";
import { addSeconds, type Clock } from "../../platform/lib/clock.ts";
import { NIL_ID, newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { Runs } from "../runs/runs.service.ts";
import type { BegunRun, ClaimedRun } from "../runs/runs.types.ts";
import { buildTranscript, type EngineInput, type RunConfig, type RunStep } from "../runs/transcript.ts";
import { chatErrors } from "./errors.ts";
import {
  createThreadsStore,
  type ThreadFilter,
  type ThreadKey,
  type ThreadPage,
  type ThreadRow,
  type TurnRow,
} from "./threads.store.ts";

/** The input of a run that may be a thread's turn. */
export interface ThreadInput extends EngineInput {
  thread_id?: string;
}

/** The turns of the first query, latest first; the next ones read as many as are likely to fit, and at most MAX_TURNS. */
const FIRST_TURNS = 4;
const MAX_TURNS = 20;
/** Threads without a title that one turn of the sweep reads, and the interval between two searches for them. */
const UNTITLED = 200;
const UNTITLED_SEARCH_SECONDS = 3_600;
/** A key before all threads. */
const FIRST = { user_id: NIL_ID, uid: NIL_ID };
/** Higher than any turn's number. */
const NO_TURN = 2_147_483_647;

/** A succeeded turn with its messages. */
interface DoneTurn extends TurnRow {
  run: BegunRun["run"];
  messages: ChatMessage[];
}

/**
 * Threads: which runs belong together. A turn belongs to its thread if and only if its run has succeeded, so a crash
 * can neither lose nor double it. Owns `thread` and `thread_turn`.
 */
export function createThreads(deps: { db: Db; clock: Clock; runs: Runs; models: Models }) {
  const { db, clock, runs, models } = deps;
  const store = createThreadsStore(db);
  let titled_to = FIRST;
  let next_title_search_at: Instant | null = null;

  const newThread = ({ user_id, agent_id, thread_id }: ThreadKey): ThreadRow => {
    const now = clock.now();
    return {
      user_id,
      agent_id,
      id: thread_id,
      uid: newId(),
      title: null,
      title_run_id: null,
      last_turn: 0,
      last_run_id: null,
      created_at: now,
      updated_at: now,
    };
  };
  const find = async (key: ThreadKey): Promise<ThreadRow> => {
    const row = await store.thread(key);
    if (row === undefined) throw errors.notFound("This thread");
    return row;
  };

  /** The succeeded turns among these, in the same order. */
  async function doneTurns(user_id: string, rows: readonly TurnRow[]): Promise<DoneTurn[]> {
    const run_ids = rows.map(({ run_id }) => run_id);
    const [begun, journals] = await Promise.all([runs.begunRuns(user_id, run_ids), runs.journals(user_id, run_ids)]);
    return rows.flatMap((row) => {
      const found = begun.get(row.run_id);
      if (found?.run.status !== "succeeded") return [];
      const messages = turnMessages(found.engine_input as EngineInput, journals.get(row.run_id) ?? []);
      return [{ ...row, run: found.run, messages }];
    });
  }

  /** The messages of the turns before one that fit, oldest first, and the number of turns left out. */
  async function historyBefore({ user_id, thread_uid, turn }: TurnRow, room_bytes: number) {
    const kept: ChatMessage[][] = [];
    let before_turn = turn;
    let left_bytes = room_bytes;
    let limit = FIRST_TURNS;
    for (;;) {
      const rows = await store.turnsBefore({ user_id, uid: thread_uid }, { before_turn, limit });
      const turns = (await doneTurns(user_id, rows)).map(({ messages }) => messages);
      const fit = fitting(turns, left_bytes);
      kept.push(...fit);
      left_bytes -= fit.reduce((sum, messages) => sum + measureBytes(messages), 0);
      before_turn = rows.at(-1)?.turn ?? 1;
      if (fit.length < turns.length || rows.length < limit) break;
      limit = likelyToFit(left_bytes, { turns: kept.length, bytes: room_bytes - left_bytes });
    }
    return { messages: kept.reverse().flat(), turns_left_out: turn - 1 - kept.length };
  }

  return {
    /** Creates an empty thread. 404 when the agent is deleted. 409 when the id exists, or when the user has too many empty threads. */
    async create(key: ThreadKey): Promise<ThreadRecord> {
      const row = newThread(key);
      const empty = { table: "thread", user_id: key.user_id, where: "last_turn = 0", most: USER_ROWS.empty_threads };
      await db.transaction(async (tx) => {
        if (!(await store.keepAgent(tx, key))) throw errors.notFound("This agent");
        if (!(await store.insert(tx, row))) throw chatErrors.threadExists();
        if (await hasMoreRows(tx, empty)) throw chatErrors.threadLimitReached();
      });
      return recordOf(row);
    },
    /** Newest first, each with its `position`, which is `before_uid` of the next page. */
    async list(user_id: string, filter: ThreadFilter, page: ThreadPage) {
      const rows = await store.list(user_id, filter, page);
      return rows.map((row) => ({ position: row.uid, record: recordOf(row), agent_name: row.agent_name }));
    },
    /** 404. */
    get: async (key: ThreadKey): Promise<ThreadRecord> => recordOf(await find(key)),
    /** 404. */
    async rename(key: ThreadKey, title: string): Promise<ThreadRecord> {
      const row = await store.rename(key, title);
      if (row === undefined) throw errors.notFound("This thread");
      return recordOf(row);
    },
    /**
     * Gives titles to threads of versions that had none, and to those whose title was deleted with its run. Call it every
     * second or so: it searches once an hour, and in every call while there is a backlog. Idempotent, safe on several nodes.
     */
    async addTitles(): Promise<void> {
      const now = clock.now();
      if (next_title_search_at !== null && now < next_title_search_at) return;
      const untitled = await store.untitled(titled_to, UNTITLED);
      for (const { user_id, uid, run_id } of untitled) {
        if (run_id === null) continue;
        const begun = (await runs.begunRuns(user_id, [run_id])).get(run_id);
        const { messages } = (begun?.engine_input ?? {}) as Partial<EngineInput>;
        await store.setFirstTitle({ user_id, uid }, { run_id, title: titleOf(messages ?? []) });
      }
      const last = untitled.length < UNTITLED ? undefined : untitled.at(-1);
      titled_to = last ?? FIRST;
      if (last === undefined) next_title_search_at = addSeconds(now, UNTITLED_SEARCH_SECONDS);
    },
    /**
     * A thread with its latest turns, oldest first. `before_turn` is the first turn of the page before. A page ends
     * early if its turns are large. 404.
     */
    async detail(
      key: ThreadKey,
      page: { limit: number; before_turn: number | null },
    ): Promise<{ record: Omit<ThreadDetail, "next_cursor">; earlier: number | null }> {
      const row = await find(key);
      const before_turn = page.before_turn ?? NO_TURN;
      const rows = await store.turnsBefore(row, { before_turn, limit: page.limit + 1 });
      const asked = rows.slice(0, page.limit);
      const bytes_of = await runs.sizes(
        key.user_id,
        asked.map(({ run_id }) => run_id),
      );
      const fit = thatFit(asked, ({ run_id }) => bytes_of.get(run_id) ?? 0);
      const shown = (await doneTurns(key.user_id, fit)).reverse();
      const earlier = rows.length > fit.length ? (fit.at(-1)?.turn ?? null) : null;
      return { record: { ...recordOf(row), turns: shown.map(turnOf), messages: shown.flatMap(toMessages) }, earlier };
    },
    /** 404. */
    async remove(key: ThreadKey): Promise<void> {
      if (!(await store.remove(key))) throw errors.notFound("This thread");
    },
    /** Deletes the threads of an agent; with null, of all the user's agents. */
    forget: (tx: Tx, user_id: string, agent_id: string | null) => store.removeAll(tx, user_id, agent_id),

    /** Deletes the turns of runs that are being deleted, and threads without turns. */
    forgetTurns: (tx: Tx, runs: readonly { user_id: string; run_id: string }[]) => store.removeTurns(tx, runs),

    /** The model that answered last, which routing prefers; null when no turn has an answer. */
    async lastModel(key: ThreadKey): Promise<string | null> {
      const row = await store.thread(key);
      if (row === undefined) return null;
      const [last, previous] = await store.turnsBefore(row, { before_turn: NO_TURN, limit: 2 });
      const ids = [last, previous].flatMap((turn) => turn?.run_id ?? []);
      const begun = await runs.begunRuns(key.user_id, ids);
      const done = ids.map((id) => begun.get(id)?.run).find((run) => run?.status === "succeeded");
      return done?.model_id ?? null;
    },
    /**
     * Begins a turn with these messages, executed by the run with this id, which the same transaction queues. 409 while
     * another turn is open.
     */
    async begin(
      tx: Tx,
      key: ThreadKey,
      { run_id, messages }: { run_id: string; messages: readonly ChatMessage[] },
    ): Promise<void> {
      await store.insert(tx, newThread(key));
      const row = await store.lock(tx, key);
      if (row === undefined) throw new Error("a thread vanished under its lock");
      const last = row.last_run_id === null ? undefined : await lastRun(tx, key.user_id, row.last_run_id);
      if (last !== undefined && last.finished_at === null) {
        throw chatErrors.threadBusy(last.status === "requires_action" ? last.id : null);
      }
      const is_done = row.last_turn === 0 || last?.status === "succeeded";
      const titled = givesTitle(row, is_done ? null : row.last_run_id)
        ? { title: titleOf(messages), title_run_id: run_id }
        : row;
      await store.beginTurn(
        tx,
        { user_id: key.user_id, thread_uid: row.uid, run_id, turn: row.last_turn + (is_done ? 1 : 0) },
        { title: titled.title, title_run_id: titled.title_run_id, now: clock.now() },
      );
    },
    /** The run with the thread's earlier turns before its own messages. A run without a thread is unchanged. */
    async withHistory(run: ClaimedRun, config: RunConfig): Promise<ClaimedRun> {
      const input = run.engine_input as ThreadInput;
      if (input.thread_id === undefined) return run;
      const turn = await store.turnOf(run.lease.user_id, run.lease.run_id);
      // Its thread was deleted.
      if (turn === undefined) return run;
      const context_window = toContext(config, run.model_id);
      const { messages, turns_left_out } = await historyBefore(turn, roomForHistory(context_window, config, input));
      if (turns_left_out > 0) await store.noteLeftOut({ ...turn, turns_left_out });
      return { ...run, engine_input: { ...input, messages: [...messages, ...(input.messages ?? [])] } };
    },
  };

  async function lastRun(tx: Tx, user_id: string, run_id: string) {
    return (await runs.begunRuns(user_id, [run_id], tx)).get(run_id)?.run;
  }

  /** The context of the model that will answer, or of the smallest available model if that is unknown. */
  function toContext(config: RunConfig, model_id: string | null): number {
    const model = models.find((config.auto_route ? model_id : config.model_id) ?? "");
    return model?.context_window ?? Math.min(...models.list().map(({ context_window }) => context_window));
  }
}

export type Threads = ReturnType<typeof createThreads>;

type TurnsPage = { thread_id: string } & Parameters<Threads["detail"]>[1];

/** The threads of existing agents. 404 for other agents. */
export function threadsOfAgents(threads: Threads, find: (user_id: string, id: string) => Promise<{ id: string }>) {
  const getKey = async (user_id: string, id: string) => ({ user_id, agent_id: (await find(user_id, id)).id });
  return {
    create: async (user_id: string, id: string, thread_id: string) =>
      threads.create({ ...(await getKey(user_id, id)), thread_id }),
    list: async (user_id: string, id: string, page: ThreadPage) =>
      threads.list(user_id, { agent_id: (await find(user_id, id)).id }, page),
    listAll: threads.list,
    get: async (user_id: string, id: string, thread_id: string) =>
      threads.get({ ...(await getKey(user_id, id)), thread_id }),
    rename: async (user_id: string, id: string, { thread_id, title }: { thread_id: string; title: string }) =>
      threads.rename({ ...(await getKey(user_id, id)), thread_id }, title),
    detail: async (user_id: string, id: string, { thread_id, ...page }: TurnsPage) =>
      threads.detail({ ...(await getKey(user_id, id)), thread_id }, page),
    remove: async (user_id: string, id: string, thread_id: string) =>
      threads.remove({ ...(await getKey(user_id, id)), thread_id }),
  };
}

export type AgentThreads = ReturnType<typeof threadsOfAgents>;

function recordOf({ id, agent_id, title, last_run_id, created_at, updated_at }: ThreadRow): ThreadRecord {
  return { id, agent_id, title, last_run_id, created_at, updated_at };
}

function turnOf({ run, turns_left_out }: DoneTurn): ThreadDetail["turns"][number] {
  const { id, model_id, usage, finished_at, queued_at } = run;
  const { cost_tokens } = usage;
  return { run_id: id, model_id, turns_left_out, cost_tokens, finished_at: finished_at ?? queued_at };
}

/** Without the opaque reasoning, which only its model can read. The turn names the model. */
function toMessages({ run, messages }: DoneTurn): ThreadDetail["messages"] {
  return messages.map(({ model: _, route: _route, reasoning_details: _details, ...message }) => ({
    ...message,
    run_id: run.id,
  })) as ThreadDetail["messages"];
}

// Titles; pure.

const TITLE_CHARS = 80;
/** Characters of a line that are read for its title. */
const TITLE_LINE_CHARS = 1_000;

/** The first line of the user's first text, shortened at the end of a word; null without text. */
export function titleOf(messages: readonly ChatMessage[]): string | null {
  const texts = messages.flatMap(({ role, content }) => {
    if (role !== "user" || content == null) return [];
    return typeof content === "string"
      ? [content]
      : content.flatMap((part) => (part.type === "text" ? (part.text ?? []) : []));
  });
  const first = texts.map((text) => /\S.*/.exec(text)?.[0]).find((line) => line !== undefined);
  if (first === undefined) return null;
  const line = first.slice(0, TITLE_LINE_CHARS).replaceAll(/\s+/g, " ").trim();
  if (line.length <= TITLE_CHARS) return line;
  // A word that is longer than a title is cut between two characters as people see them, such as emoji.
  return `${beginningOf(line, "word") || beginningOf(line, "grapheme")}…`;
}

function beginningOf(line: string, granularity: "word" | "grapheme"): string {
  let end = 0;
  for (const { index, segment } of new Intl.Segmenter("en", { granularity }).segment(line)) {
    if (index + segment.length > TITLE_CHARS) break;
    end = index + segment.length;
  }
  return line.slice(0, end).trimEnd();
}

/** Whether a new turn gives the title: no turn had text yet, or the title comes from the failed turn that it replaces. */
function givesTitle({ title, title_run_id, last_turn }: ThreadRow, replaced_run_id: string | null): boolean {
  if (title === null) return last_turn === 0 || title_run_id !== null;
  return title_run_id !== null && title_run_id === replaced_run_id;
}

// The part of a thread's earlier turns that the model receives; pure.

/** Bytes per token. Holds use the same ratio, and natural text has at least as many bytes per token. */
const BYTES_PER_TOKEN = 2;
/** The share of a model's context that a turn's first prompt may fill. The rest is for its tools and its answer. */
const PROMPT_SHARE = 0.75;

/** The messages of a turn, unchanged: the user's messages, the model's answers, the tool calls and results. */
export function turnMessages(input: EngineInput, steps: readonly RunStep[]): ChatMessage[] {
  return buildTranscript({ system_prompt: null, run_prompt: null }, input, steps);
}

/** The number of bytes of earlier turns that fit beside the content that is always sent. */
export function roomForHistory(context_window: number, config: RunConfig, input: EngineInput): number {
  const sent = measureBytes([config.system_prompt, input.messages]);
  return Math.floor(context_window * PROMPT_SHARE) * BYTES_PER_TOKEN - sent;
}

/** The turns that fit, latest first: whole turns without a gap. */
export function fitting<Turn>(turns: readonly Turn[], room_bytes: number): Turn[] {
  let left = room_bytes;
  const first_out = turns.findIndex((turn) => {
    left -= measureBytes(turn);
    return left < 0;
  });
  return first_out === -1 ? [...turns] : turns.slice(0, first_out);
}

/** The number of turns to read next, at least one: their sizes are only known once they are read. */
export function likelyToFit(left_bytes: number, read: { turns: number; bytes: number }): number {
  if (read.bytes === 0) return MAX_TURNS;
  return Math.min(MAX_TURNS, Math.max(1, Math.floor((left_bytes * read.turns) / read.bytes)));
}

/** The size of a value as JSON. */
export function measureBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
