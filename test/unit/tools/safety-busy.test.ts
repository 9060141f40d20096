import { afterAll, beforeAll, expect, it } from "vitest";
import type { ToolsConfig } from "../../../src/api/contract/tools.ts";
import { BUSY, type Sanitizers } from "../../../src/safety/sanitizer.ts";
import { answerAsMcp, mcpTool } from "../../support/mcp-messages.ts";
import { type Site, startSite } from "../../support/sites.ts";
import { aCall, toolsWith } from "../../support/tools.ts";

// A page that the safety layer had no time for must not reach the model, and the model gets a message with the remedy.

const TEXT = "what the site says";
let site: Site;
beforeAll(async () => {
  site = await startSite({
    "/page": { body: `<p>${TEXT}</p>` },
    "/pdf": { headers: { "content-type": "application/pdf" }, body: TEXT },
    "/mcp": (_request, response) => {
      const onCall = (answer: (result: object) => void) => answer({ content: [{ type: "text", text: TEXT }] });
      answerAsMcp(response, site.requests.at(-1)?.body || "{}", { tools: [mcpTool("berth")], onCall });
    },
  });
});
afterAll(() => site.close());

/** A safety layer that checks the short texts of tools, but has no time for pages. */
const sanitizer: Sanitizers = {
  of: () => ({
    sanitize: async ({ content }) =>
      content.includes(TEXT)
        ? BUSY
        : {
            text: content,
            verdict: { injected: false, suspicious: false, score: 0 },
            removed: [],
            marked: [],
            links: [],
            marker: "",
          },
    pdfText: async () => BUSY,
  }),
};

it.each([
  ["web_fetch", "/page", "fetch_failed"],
  ["web_fetch", "/pdf", "fetch_failed"],
  ["h__berth", "/mcp", "mcp_failed"],
])(
  "%s of %s fails and names the busy safety layer, and the step contains nothing from the answer",
  async (name, path, code) => {
    const { tools } = toolsWith({ allow: [site.host], sanitizer });
    const tools_config: ToolsConfig = {
      web_fetch: { enabled: true },
      mcp: { enabled: true, servers: [{ name: "h", url: `${site.url}/mcp` }] },
    };
    const args = name === "web_fetch" ? { url: `${site.url}${path}` } : {};
    const result = await tools.call(aCall(name, args, { tools_config }));
    expect(result).toMatchObject({
      status: "failed",
      error: {
        code,
        message: expect.stringContaining("the safety layer cannot check the answer now, because too many pages wait"),
      },
    });
    expect(JSON.stringify(result)).not.toContain(TEXT);
  },
);
