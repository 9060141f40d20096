import { type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { RequestError } from "@hono/node-server";
import { errors, type PurserError } from "../errors.ts";
import { newId } from "../platform/ids.ts";
import { errorBody } from "./error-response.ts";
import { SECURITY_HEADERS } from "./security-headers.ts";

/** A socket with its current response, as Node's own error handler reads it. */
type ServerSocket = Duplex & { _httpMessage?: ServerResponse };

/**
 * Answers invalid, slow or oversized HTTP requests in the shape of every other error, and closes the connection. Sends
 * nothing if an answer has begun or the client has left.
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

/** Answers a request with an invalid address or host. Any other error here is an internal error. */
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
