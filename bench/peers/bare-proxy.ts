import { createServer } from "node:http";
import { Agent } from "undici";

/**
 * The minimum of a metering proxy on Node, as a baseline: it forwards requests, finds the usage in the answer, and sums
 * it in memory. It checks no key and stores nothing. `node bare-proxy.ts UPSTREAM_ORIGIN`
 */

/** Enough for the chunk with the usage and the final chunk. */
const TAIL_CHARACTERS = 1_000;

const origin = process.argv[2] ?? "";
const connections = new Agent();
let total_tokens = 0;

function count(text: string): void {
  const found = text.lastIndexOf('"total_tokens":');
  if (found !== -1) total_tokens += Number.parseInt(text.slice(found + 15), 10);
}

const server = createServer(async (request, response) => {
  if (request.method === "GET") return response.end(String(total_tokens));
  let body = "";
  for await (const chunk of request) body += chunk;
  const headers = { "content-type": "application/json" };
  const answer = await connections.request({ origin, path: "/v1/chat/completions", method: "POST", headers, body });
  response.writeHead(answer.statusCode, { "content-type": String(answer.headers["content-type"]) });
  let tail = "";
  for await (const chunk of answer.body) {
    tail = (tail + chunk).slice(-TAIL_CHARACTERS);
    response.write(chunk);
  }
  count(tail);
  response.end();
});
server.listen(0, "127.0.0.1", 4096, () => {
  const address = server.address();
  if (address !== null && typeof address === "object") console.log(`listening on http://127.0.0.1:${address.port}`);
});
