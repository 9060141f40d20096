import type { ServerResponse } from "node:http";
import { answerAsMcp, mcpTool } from "./mcp-messages.ts";
import { type Site, startSite } from "./sites.ts";

/** The mail that asks for an offer, as the mailbox has it. */
export const CRM_MAIL = "From: Ada Lovelace <ada@analytical.example>\n\nPlease send me an offer. My phone is 0123 456.";

/** A mailbox and a CRM, each an MCP server of its own path. */
export interface Crm {
  mail_url: string;
  crm_url: string;
  /** As PURSER_EGRESS_ALLOW takes it. */
  host: string;
  /** The contacts that were added. */
  contacts: unknown[];
  close(): Promise<void>;
}

const contact = {
  type: "object",
  properties: { name: { type: "string" }, phone: { type: "string" } },
  required: ["name"],
  additionalProperties: false,
};

export async function startCrm(): Promise<Crm> {
  const contacts: unknown[] = [];
  const text = (said: string) => ({ content: [{ type: "text", text: said }] });
  const serve = (tools: Record<string, { schema?: object; call(given: unknown): string }>) => {
    return (_request: unknown, response: ServerResponse) => {
      const body = site.requests.at(-1)?.body ?? "";
      answerAsMcp(response, body, {
        tools: Object.entries(tools).map(([name, { schema }]) =>
          mcpTool(name, { description: "", ...(schema !== undefined && { inputSchema: schema }) }),
        ),
        onCall: (answer) => {
          const { name, arguments: given } = JSON.parse(body).params;
          answer(text(tools[name]?.call(given) ?? "There is no such tool."));
        },
      });
    };
  };
  const site: Site = await startSite({
    "/mail": serve({ list_mail: { call: () => CRM_MAIL } }),
    "/crm": serve({
      find_contact: { call: () => "No contact has this name." },
      create_contact: {
        schema: contact,
        call: (given) => `The contact has number ${contacts.push(given)}.`,
      },
    }),
  });
  return {
    mail_url: `${site.url}/mail`,
    crm_url: `${site.url}/crm`,
    host: site.host,
    contacts,
    close: () => site.close(),
  };
}
