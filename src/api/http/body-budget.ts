import { errors } from "../../kernel/errors.ts";

/** Request bodies in memory on this node at one time, from their first byte until the answer begins. */
const NODE_BYTES = 256 * 1024 * 1024;
/** The part of it for one caller: a user, or an address where no key is needed. */
const CALLER_BYTES = 64 * 1024 * 1024;
/**
 * A body up to this size counts only in its caller's sum. So large uploads do not block ordinary requests, and small
 * bodies that are declared and never sent do not block large ones.
 */
const SMALL_BYTES = 65_536;
const RETRY_AFTER_S = 2;

/** One request's share of the budget. */
export interface BodyShare {
  /** Takes `bytes` more. Throws 503 `overloaded` when its caller or the node holds too many. */
  take(bytes: number): void;
  /** Returns the whole share. */
  release(): void;
}

/** The memory limit of request bodies on this node. */
export function createBodyBudget(limits = { node_bytes: NODE_BYTES, caller_bytes: CALLER_BYTES }) {
  const callers = new Map<string, number>();
  let held = 0;

  return (caller: string): BodyShare => {
    let own = 0;
    /** The part of these bytes that counts in the node's sum. */
    let own_large = 0;
    const change = (bytes: number, large: number) => {
      own += bytes;
      own_large += large;
      held += large;
      const sum = (callers.get(caller) ?? 0) + bytes;
      if (sum === 0) callers.delete(caller);
      else callers.set(caller, sum);
    };
    return {
      take(bytes) {
        const large = own + bytes > SMALL_BYTES ? own + bytes - own_large : 0;
        const is_over = (callers.get(caller) ?? 0) + bytes > limits.caller_bytes;
        if (is_over || (large > 0 && held + large > limits.node_bytes)) throw errors.overloaded(RETRY_AFTER_S);
        change(bytes, large);
      },
      release: () => change(-own, -own_large),
    };
  };
}
