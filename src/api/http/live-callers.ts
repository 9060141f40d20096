import { PurserError } from "../../kernel/errors.ts";
import type { LiveCaller, RequestFacts } from "../contract/caller.ts";
import type { CallerCredential } from "./credential.ts";
import { httpErrors } from "./errors.ts";

/** contract 3: a revoked key is refused within a second on every node; this leaves time for the notification. */
const CHECK_MS = 250;
/** contract 2.12.4: open streams of a user on this node. A reseller's end users share a user. */
export const STREAMS_PER_USER = 1_000;
const RETRY_STREAM_S = 5;

interface Watched {
  credential: CallerCredential;
  streams: Set<AbortController>;
  /** The check that is still running. */
  checking: Promise<void> | null;
}

/**
 * Authenticates the callers of running streams again and again. It reads a cache that notifications invalidate, so a
 * check costs no query.
 */
export function createLiveCallers(cut_off: AbortSignal) {
  const watched = new Map<string, Watched>();
  const open_of_user = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;

  const check = async ({ credential, streams }: Watched): Promise<void> => {
    try {
      await credential.authenticate();
    } catch (error) {
      // Any other failure, such as an unavailable database, says nothing about the caller.
      if (isRefusal(error)) for (const stream of [...streams]) stream.abort(error);
    }
  };
  const checkAll = () => {
    for (const entry of watched.values()) {
      entry.checking ??= check(entry).finally(() => {
        entry.checking = null;
      });
    }
  };

  const cutAll = () => {
    for (const { streams } of watched.values()) for (const stream of [...streams]) stream.abort(cut_off.reason);
  };
  cut_off.addEventListener("abort", cutAll, { once: true });

  return {
    /** Throws 429 if the user has too many streams. */
    watch(user_id: string, credential: CallerCredential): LiveCaller {
      const open = open_of_user.get(user_id) ?? 0;
      if (open >= STREAMS_PER_USER) throw httpErrors.tooManyStreams(RETRY_STREAM_S, open);
      open_of_user.set(user_id, open + 1);
      const stream = new AbortController();
      if (cut_off.aborted) stream.abort(cut_off.reason);
      const entry = watched.get(credential.name) ?? { credential, streams: new Set(), checking: null };
      entry.streams.add(stream);
      watched.set(credential.name, entry);
      timer ??= setInterval(checkAll, CHECK_MS).unref();
      const leave = () => {
        if (!entry.streams.delete(stream)) return;
        const left = (open_of_user.get(user_id) ?? 1) - 1;
        if (left > 0) open_of_user.set(user_id, left);
        else open_of_user.delete(user_id);
        if (entry.streams.size > 0 || watched.get(credential.name) !== entry) return;
        watched.delete(credential.name);
        if (watched.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
      return { refused: stream.signal, check: () => check(entry), leave };
    },
  };
}

export type LiveCallers = ReturnType<typeof createLiveCallers>;

/** Watches the caller of one request. Its log line waits for the end of the watch. */
export function watchCaller(
  callers: LiveCallers,
  { user_id, credential }: { user_id: string; credential: CallerCredential },
  facts: RequestFacts,
): LiveCaller {
  const live = callers.watch(user_id, credential);
  const ended = Promise.withResolvers<void>();
  facts.ended = ended.promise;
  const leave = () => {
    live.leave();
    ended.resolve();
  };
  return { ...live, leave };
}

function isRefusal(error: unknown): boolean {
  return error instanceof PurserError && (error.shape.status === 401 || error.shape.status === 403);
}
