import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { PurserError } from "../../kernel/errors.ts";
import { newId } from "../../platform/lib/ids.ts";
import { errorBody, retryHeaders } from "./error-response.ts";
import { httpErrors } from "./errors.ts";

/** A socket with its current response, as Node's own error handler reads it. */
type ServerSocket = Duplex & { _httpMessage?: ServerResponse };

const RETRY_CONNECTION_S = 5;
const RETRY_START_S = 2;

/** Answers to requests that reach no application, in the shape of every other error. */
export function createEarlyAnswers(security_headers: Readonly<Record<string, string>>) {
  const headersOf = () => ({ ...security_headers, "Content-Type": "application/json", "X-Request-Id": newId() });
  const answerTo = (failure: PurserError) => {
    const headers = headersOf();
    const body = JSON.stringify(errorBody(failure, headers["X-Request-Id"]));
    return { status: failure.shape.status, headers: { ...headers, ...retryHeaders(failure) }, body };
  };
  const send = (outgoing: ServerResponse, failure: PurserError) => {
    const { status, headers, body } = answerTo(failure);
    outgoing.writeHead(status, { ...headers, "Content-Length": Buffer.byteLength(body) }).end(body);
  };
  return {
    /**
     * Answers invalid, slow or oversized HTTP requests and closes the connection. Sends nothing if an answer has begun or
     * the client has left.
     */
    refuse(error: NodeJS.ErrnoException, socket: ServerSocket): void {
      if (!socket.writable || error.code === "ECONNRESET" || socket._httpMessage?.headersSent === true) {
        socket.destroy();
        return;
      }
      const { status, headers, body } = answerTo(failureOf(error.code));
      const lines = Object.entries({ ...headers, "Content-Length": Buffer.byteLength(body), Connection: "close" });
      const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines.map(([name, value]) => `${name}: ${value}`)];
      socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
    },

    /** Answers a request on a connection beyond the limit of its address, and closes the connection. */
    tooManyConnections(outgoing: ServerResponse, most: number): void {
      outgoing.setHeader("Connection", "close");
      send(outgoing, httpErrors.tooManyConnections(RETRY_CONNECTION_S, most));
    },

    /** contract 1.6.1: while the service starts, the process lives and is not ready. */
    starting({ url = "" }: IncomingMessage, outgoing: ServerResponse): void {
      const [path] = url.split("?", 1);
      const is_live = path === "/livez";
      if (!is_live && path !== "/readyz") {
        send(outgoing, httpErrors.starting(RETRY_START_S));
        return;
      }
      const body = JSON.stringify(is_live ? { status: "ok" } : { status: "not ready", reason: "starting" });
      outgoing.writeHead(is_live ? 200 : 503, { ...headersOf(), "Content-Length": Buffer.byteLength(body) }).end(body);
    },
  };
}

function failureOf(code: string | undefined): PurserError {
  if (code === "HPE_HEADER_OVERFLOW") return httpErrors.headersTooLarge();
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return httpErrors.requestTimeout();
  return httpErrors.malformedRequest();
}
