import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Client } from "undici";
import { SecretValue } from "../src/platform/lib/secret-value.ts";
import type { Credential } from "../src/platform/net/credentials.ts";
import { createOutbound } from "../src/platform/net/outbound.ts";
import { holdsSecret } from "../src/platform/net/scrub.ts";
import type { Effort, Outcome } from "./support/outcome.ts";
import { inTurn, medianOf } from "./support/statistics.ts";

const SECRET = new SecretValue("sk_live_0123456789abcdefghijklmnopqrstuv");
const REQUESTS = 500;
const WARM_UP = 100;
const PAGE_BYTES = 20_000;
const SEARCHES = 10;
const LIMITS = { max_bytes: 5_000_000, timeout_ms: 20_000, max_redirects: 5 };

/** What the guard costs beside a bare request, and what looking for a secret in an answer does. */
export async function outbound(effort: Effort): Promise<Outcome> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "text/html" }).end(page(PAGE_BYTES));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    const rounds = await inTurn(fetches(origin, Math.ceil(REQUESTS * effort.scale)), effort.rounds);
    const us = (name: string) => medianOf(rounds.get(name), (each) => each);
    const searches = await inTurn(contents(), effort.rounds);
    const ms = (name: string) => medianOf(searches.get(name), (each) => each);
    return {
      name: "outbound",
      title: "Outgoing requests",
      tables: [
        {
          caption: `A page of ${PAGE_BYTES} bytes over a new connection on loopback, one after the other`,
          columns: ["µs"],
          rows: [...rounds.keys()].map((name) => ({ name, values: [us(name)] })),
          drawn: [0],
        },
        {
          caption: "Looking for a secret in 1 MB, time of the processor",
          columns: ["ms"],
          rows: [...searches.keys()].map((name) => ({ name, values: [ms(name)] })),
        },
      ],
      ratios: [
        { of: "guarded", to: "bare", value: us("guarded") / us("bare"), goal: "≤ 1.2" },
        { of: "guarded, with a secret", to: "bare", value: us("guarded, with a secret") / us("bare"), goal: "≤ 1.5" },
        { of: "looking for a secret in 1 MB of HTML, in a thread", to: "100 ms", value: ms("HTML") / 100, goal: "≤ 1" },
      ],
    };
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

function page(bytes: number): string {
  let text = "";
  for (let n = 0; text.length < bytes; n += 1) {
    text += `<p class="item-${n}">The harbour handled <b>${(n * 7919) % 5000}</b> ships &amp; boats in October.
      <a href="/prices/list?year=2026&amp;id=${n}">read the long description of this page</a></p>\n`;
  }
  return text.slice(0, bytes);
}

/** Microseconds of one request. */
function fetches(origin: string, count: number): Map<string, () => Promise<number>> {
  const guard = createOutbound({ allow: [new URL(origin).host] });
  const inject = { type: "bearer" } as const;
  const credential: Credential = { name: "KEY", user_id: "ada", value: SECRET, inject, isFor: () => true };
  const guarded = (credentials: Credential[]) => () =>
    guard.request({ url: `${origin}/`, method: "GET", headers: {}, credentials, ...LIMITS });
  const bare = async () => {
    const client = new Client(origin);
    const { body } = await client.request({ path: "/", method: "GET" });
    await body.text();
    await client.destroy();
  };
  const each = (request: () => Promise<unknown>) => async () => {
    for (let n = 0; n < WARM_UP; n += 1) await request();
    const from_ms = performance.now();
    for (let n = 0; n < count; n += 1) await request();
    return ((performance.now() - from_ms) * 1000) / count;
  };
  return new Map([
    ["bare", each(bare)],
    ["guarded", each(guarded([]))],
    ["guarded, with a secret", each(guarded([credential]))],
  ]);
}

/** Milliseconds of the processor for 1 MB. */
function contents(): Map<string, () => Promise<number>> {
  const size = 1_000_000;
  const html = page(size);
  const search = (bytes: Buffer) => async () => {
    const before_us = process.cpuUsage().user;
    for (let n = 0; n < SEARCHES; n += 1) holdsSecret(bytes, SECRET);
    return (process.cpuUsage().user - before_us) / 1000 / SEARCHES / (bytes.length / size);
  };
  return new Map([
    ["HTML", search(Buffer.from(html))],
    ["HTML in JSON", search(Buffer.from(JSON.stringify({ html })))],
    ["base64", search(Buffer.from(Buffer.from(html).toString("base64")))],
    ["nothing but escapes", search(Buffer.from("&#65;%41\\u0041".repeat(size / 14)))],
  ]);
}
