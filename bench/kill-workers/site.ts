import { createHash } from "node:crypto";
import { answerAsMcp, mcpTool } from "../../test/support/mcp-messages.ts";
import { type Receiver, startReceiver } from "../../test/support/receiver.ts";

const CRM_TOOLS = [mcpTool("create_contact")];
/** The longest delay of the page and the webhooks. */
const MAX_DELAY_MS = 150;
/** The longest delay of a contact: a kill must often come between its call and its answer. */
const MAX_CRM_MS = 1_500;
/** The first try of one result in this number is refused. */
const REFUSED_ONE_IN = 8;

/** A received webhook. */
export interface Delivery {
  label: string;
  headers: Record<string, string>;
  body: string;
  at_ms: number;
}

/** A call of a tool of the CRM, which the caller must not make twice. */
export interface CrmCall {
  label: string;
  arguments: unknown;
  at_ms: number;
}

export interface Site {
  url: string;
  host: string;
  deliveries: Delivery[];
  /** Results of runs, which the agents' deliveries send. */
  results: Delivery[];
  crm_calls: CrmCall[];
  close(): Promise<void>;
}

/**
 * The site that runs use: `/page`, `/hook/{label of the agent}`, `/crm/{label}`, an MCP server, and `/result/{label}` for
 * their results.
 */
export async function startSite(): Promise<Site> {
  const receiver: Receiver = await startReceiver();
  const deliveries: Delivery[] = [];
  const results: Delivery[] = [];
  const crm_calls: CrmCall[] = [];
  const callCrm = (label: string, body: string, say: (result: unknown) => void) => {
    const given = JSON.parse(body).params.arguments;
    crm_calls.push({ label, arguments: given, at_ms: performance.now() });
    const delay_ms = createHash("sha256").update(body).digest().readUInt16BE() % MAX_CRM_MS;
    setTimeout(say, delay_ms, { content: [{ type: "text", text: "Saved." }] });
  };
  receiver.treat((response, { path, headers, body }) => {
    const [, kind, label = ""] = path.split("/");
    const id = headers["webhook-id"];
    const is_first = results.every((result) => result.headers["webhook-id"] !== id);
    const chance = createHash("sha256").update(`${path}${body}`).digest().readUInt16BE();
    const came = { label, headers, body, at_ms: performance.now() };
    if (kind === "hook") deliveries.push(came);
    if (kind === "result") results.push(came);
    const answer = () => {
      if (kind === "crm") answerAsMcp(response, body, { tools: CRM_TOOLS, onCall: (say) => callCrm(label, body, say) });
      else if (kind === "result" && is_first && chance % REFUSED_ONE_IN === 0) response.writeHead(503).end();
      else if (kind === "hook" || kind === "result") response.writeHead(204).end();
      else response.writeHead(200, { "content-type": "text/plain" }).end("The train leaves at nine.");
    };
    setTimeout(answer, chance % MAX_DELAY_MS);
  });
  return { url: receiver.url, host: receiver.host, deliveries, results, crm_calls, close: receiver.close };
}
