import {
  instantSchema,
  json,
  listQuerySchema,
  nameSchema,
  nextCursorSchema,
  tokensSchema,
  uuidSchema,
  wordsQuery,
} from "./common.ts";
import { readOnlyFields } from "./read-only.ts";
import { pageSchema, routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** Threads: conversations with an agent that the service keeps. */

export const threadIdSchema = z
  .string()
  .regex(/^[A-Za-z0-9_.:-]{1,128}$/, "1 to 128 of the characters A-Z a-z 0-9 _ . : -")
  .openapi({ example: "support-4711" });

const threadSchema = z
  .object({
    id: threadIdSchema,
    agent_id: uuidSchema,
    title: z.string().nullable().openapi({
      description: "chosen by its user, or the first line of the user's first message; null while there is no text",
    }),
    last_run_id: uuidSchema.nullable().openapi({ description: "the run of its latest turn, whatever became of it" }),
    created_at: instantSchema,
    updated_at: instantSchema.openapi({ description: "when its latest turn began" }),
  })
  .openapi("Thread");
export type ThreadRecord = z.infer<typeof threadSchema>;

const foundThreadSchema = threadSchema.extend({ agent_name: z.string() }).openapi("FoundThread");

const threadMessageSchema = z
  .looseObject({
    role: z.enum(["system", "user", "assistant", "tool"]),
    content: z.unknown(),
    run_id: uuidSchema.openapi({ description: "the run of its turn" }),
  })
  .openapi("ThreadMessage");

const threadTurnSchema = z
  .object({
    run_id: uuidSchema,
    model_id: z.string().nullable(),
    turns_left_out: z.number().int().openapi({
      description: "how many of the oldest turns its model was not sent, because its context had no room for them",
    }),
    cost_tokens: tokensSchema.openapi({ description: "what its run has cost" }),
    finished_at: instantSchema,
  })
  .openapi("ThreadTurn");

const threadDetailSchema = threadSchema
  .extend({
    turns: z.array(threadTurnSchema).openapi({ description: "those that succeeded, oldest first" }),
    messages: z.array(threadMessageSchema).openapi({ description: "of these turns, oldest first" }),
    next_cursor: nextCursorSchema.openapi({ description: "for the turns before these; null at the beginning" }),
  })
  .openapi("ThreadDetail");
export type ThreadDetail = z.infer<typeof threadDetailSchema>;

const newThreadSchema = z.strictObject({ id: threadIdSchema.optional() }).openapi("NewThread");

export const THREAD_READ_ONLY = {
  fixed: ["id", "agent_id", "created_at"],
  moving: ["last_run_id", "updated_at"],
} as const;
const updateThreadSchema = z
  .strictObject({
    title: nameSchema(200),
    ...readOnlyFields(THREAD_READ_ONLY),
  })
  .openapi("UpdateThread");

const routes = routesOf("Threads");

export const listAllThreads = routes.get("/api/v1/threads", {
  summary: "Threads of all agents, newest first",
  scope: "chat:read",
  query: listQuerySchema.extend({ agent_id: z.uuid().optional(), q: wordsQuery("the title") }),
  answers: { 200: json(pageSchema({ threads: foundThreadSchema }), "a page of threads") },
});

export const createThread = routes.post("/api/v1/agents/{id}/threads", {
  summary: "Begin a thread; a chat with a new thread_id does so as well",
  scope: "chat:write",
  body: newThreadSchema,
  answers: { 201: json(threadSchema, "the thread; its id is a UUID unless given") },
  fails: [409],
});

export const listThreads = routes.get("/api/v1/agents/{id}/threads", {
  summary: "The agent's threads, newest first",
  scope: "chat:read",
  query: listQuerySchema,
  answers: { 200: json(pageSchema({ threads: threadSchema }), "a page of threads") },
});

export const getThread = routes.get("/api/v1/agents/{id}/threads/{thread_id}", {
  summary: "A thread with its latest turns; `limit` counts turns",
  scope: "chat:read",
  query: listQuerySchema,
  answers: { 200: json(threadDetailSchema, "the thread") },
});

export const updateThread = routes.patch("/api/v1/agents/{id}/threads/{thread_id}", {
  summary: "Give a thread another title",
  scope: "chat:write",
  body: updateThreadSchema,
  answers: { 200: json(threadSchema, "the thread") },
});

export const deleteThread = routes.delete("/api/v1/agents/{id}/threads/{thread_id}", {
  summary: "Forget a thread; its runs stay in the agent's history",
  scope: "chat:write",
  answers: { 204: { description: "deleted" } },
});
