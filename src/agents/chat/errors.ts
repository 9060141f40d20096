import { USER_ROWS } from "../../kernel/constants.ts";
import { conflict, tooMany } from "../../kernel/purser-error.ts";

/** Errors of chats with an agent. */
export const chatErrors = {
  runCancelled: () =>
    conflict(
      "run_cancelled",
      "The run was cancelled before it had answered. Send the request again to start another run.",
    ),
  threadExists: () =>
    conflict("thread_exists", "A thread with this id exists. Chat in it, or choose another id.", "id"),
  /** `waiting_id`: the run of its turn, if that waits for a decision. */
  threadBusy: (waiting_id: string | null) =>
    conflict(
      "thread_busy",
      waiting_id === null
        ? "A turn of this thread is under way. Wait for its answer."
        : `A turn of this thread waits for a decision. Decide it, or cancel its run ${waiting_id}.`,
      "thread_id",
    ),
  threadLimitReached: () =>
    conflict(
      "thread_limit_reached",
      tooMany(USER_ROWS.empty_threads, "threads without a turn", "Chat in one, or delete one first."),
    ),
};
