import { createHash } from "node:crypto";
import { type Receiver, startReceiver } from "../../test/support/receiver.ts";

/** The longest delay of the page and the webhooks. */
const MAX_DELAY_MS = 150;

/** A received webhook. */
export interface Delivery {
  label: string;
  headers: Record<string, string>;
  body: string;
  at_ms: number;
}

export interface Site {
  url: string;
  host: string;
  deliveries: Delivery[];
  close(): Promise<void>;
}

/** The site that runs use: `/page` and `/hook/{label of the agent}`. */
export async function startSite(): Promise<Site> {
  const receiver: Receiver = await startReceiver();
  const deliveries: Delivery[] = [];
  receiver.treat((response, { path, headers, body }) => {
    const [, kind, label = ""] = path.split("/");
    if (kind === "hook") deliveries.push({ label, headers, body, at_ms: performance.now() });
    const answer = () => {
      if (kind === "hook") response.writeHead(204).end();
      else response.writeHead(200, { "content-type": "text/plain" }).end("The train leaves at nine.");
    };
    setTimeout(answer, createHash("sha256").update(`${path}${body}`).digest().readUInt16BE() % MAX_DELAY_MS);
  });
  return { url: receiver.url, host: receiver.host, deliveries, close: receiver.close };
}
