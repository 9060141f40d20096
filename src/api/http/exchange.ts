import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestFacts } from "../contract/caller.ts";
import type { Endpoint } from "../contract/endpoint.ts";

/** One request and its answer on Node's HTTP server, as every step of server.ts sees it. */
export interface Exchange {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  /** Null: the address is unknown. */
  readonly endpoint: Endpoint | null;
  readonly method: string;
  /** As it was sent, without the query. */
  readonly path: string;
  /**
   * The path of the endpoint that answers, as the reference shows it; of an unknown address the path as it was sent.
   * Whatever depends on the address must use it: a path can be spelled in many ways (`%61dmin`).
   */
  readonly route: string;
  /** The values in the path, and those of the query, as they were sent. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: unknown;
  readonly request_id: string;
  /** What the log line says of the request. */
  readonly facts: RequestFacts;
  readonly started_ms: number;
  /** Headers that the answer gets beside its own. */
  readonly head: Record<string, string>;
  /** A header by its name in lower case. */
  header(name: string): string | undefined;
}

/** Whether a browser asks for one of the console's pages. */
export function isPage({ path, header }: Pick<Exchange, "path" | "header">): boolean {
  if (path === "/") return true;
  const is_file = path.slice(path.lastIndexOf("/")).includes(".");
  return !is_file && !path.startsWith("/api/") && (header("accept") ?? "").includes("text/html");
}

/** Aborted when the connection ends before the answer does. */
export function hangUpOf(outgoing: ServerResponse): AbortSignal {
  const hang_up = new AbortController();
  const abort = () => {
    if (!outgoing.writableFinished) hang_up.abort();
  };
  outgoing.once("close", abort);
  if (outgoing.destroyed) abort();
  return hang_up.signal;
}
