import { type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { RequestError } from "@hono/node-server";
import { errors, type PurserError } from "../errors.ts";
import { newId } from "../platform/ids.ts";
import { errorBody } from "./error-response.ts";
import { SECURITY_HEADERS } from "./security-headers.ts";

/** A socket with the response that it is at, as Node's own answer to such errors looks at it. */
type ServerSocket = Duplex & { _httpMessage?: ServerResponse };

/**
 * Answers what is no HTTP request (or too slow, or too large a one) to be handled at all, in the shape of every other
 * error, and closes the connection. Silent where an answer has begun already, or nobody is there.
 */
export function refuse(error: NodeJS.ErrnoException, socket: ServerSocket): void {
  if (!socket.writable || error.code === "ECONNRESET" || socket._httpMessage?.headersSent === true) {
    socket.destroy();
    return;
  }
  const { status, headers, body } = answerTo(failureOf(error.code));
  const lines = Object.entries({ ...headers, "Content-Length": Buffer.byteLength(body), Connection: "close" });
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines.map(([name, value]) => `${name}: ${value}`)];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}

/** The answer to a request whose address or host makes no sense; anything else that gets here is our fault. */
export function refusal(error: unknown): Response {
  const failure = error instanceof RequestError ? errors.malformedRequest() : errors.internal(error);
  const { body, ...init } = answerTo(failure);
  return new Response(body, init);
}

function answerTo(failure: PurserError) {
  const request_id = newId();
  return {
    status: failure.shape.status,
    headers: { ...SECURITY_HEADERS, "Content-Type": "application/json", "X-Request-Id": request_id },
    body: JSON.stringify(errorBody(failure, request_id)),
  };
}

function failureOf(code: string | undefined): PurserError {
  if (code === "HPE_HEADER_OVERFLOW") return errors.headersTooLarge();
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return errors.requestTimeout();
  return errors.malformedRequest();
}
