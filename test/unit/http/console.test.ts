import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createConsolePages } from "../../../src/api/http/console-pages.ts";
import type { Exchange } from "../../../src/api/http/exchange.ts";

const around = mkdtempSync(join(tmpdir(), "purser-console-"));
const folder = join(around, "dist");
mkdirSync(join(folder, "assets"), { recursive: true });
writeFileSync(join(folder, "index.html"), "<!doctype html><title>Purser</title>");
writeFileSync(join(folder, "assets/index-abc.js"), "console.log('a');".repeat(100));
writeFileSync(join(folder, "theme.js"), "1;");
writeFileSync(join(folder, ".built-from"), "not to be served");
writeFileSync(join(around, "outside.js"), "secret");

/** The pages of a folder, asked as by a client. */
function pagesOf(folder: string) {
  const pages = createConsolePages(folder);
  return {
    async request(path: string, { headers = {} }: { headers?: Record<string, string> } = {}): Promise<Response> {
      const named = new Headers(headers);
      const exchange = {
        method: "GET",
        path: path.split("?")[0],
        header: (name: string) => named.get(name) ?? undefined,
      };
      const answer = await pages(exchange as unknown as Exchange);
      if (answer === null) return new Response(null, { status: 404 });
      if (answer.kind === "empty") return new Response(null, { status: answer.status });
      if (answer.kind !== "bytes") throw new Error(answer.kind);
      return new Response(answer.body as string, { status: answer.status, headers: answer.headers });
    },
  };
}
const built = pagesOf(folder);
const asBrowser = { Accept: "text/html,application/xhtml+xml" };

afterAll(() => rmSync(around, { recursive: true }));

describe("the console's files", () => {
  it("the page is served at / and at each of its addresses", async () => {
    for (const path of ["/", "/agents", "/agents/0198/runs/1", "/billing?tab=ledger"]) {
      const answer = await built.request(path, { headers: asBrowser });
      expect(answer.status, path).toBe(200);
      expect(await answer.text()).toContain("<title>Purser</title>");
    }
  });

  it.each([
    "/api/v1/nothing",
    "/missing.js",
    "/assets/missing.js",
    "/.built-from",
    "/../outside.js",
    "/%2e%2e/outside.js",
  ])("%s returns neither the page nor a file outside the folder", async (path) => {
    expect((await built.request(path, { headers: asBrowser })).status).toBe(404);
  });

  it("a program that requests an unknown path does not get the page", async () => {
    expect((await built.request("/agents", { headers: { Accept: "application/json" } })).status).toBe(404);
  });

  it("the page can load from and send to its own origin only, and cannot be framed", async () => {
    const answer = await built.request("/", { headers: asBrowser });
    const policy = answer.headers.get("Content-Security-Policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("connect-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain("unsafe");
    expect(answer.headers.get("X-Content-Type-Options")).toBe("nosniff");
  });

  it("files with a hash in their name are cached without expiry, and the page is revalidated", async () => {
    const asset = await built.request("/assets/index-abc.js", { headers: { "Accept-Encoding": "gzip, br" } });
    expect(asset.headers.get("Cache-Control")).toContain("immutable");
    expect(asset.headers.get("Content-Encoding")).toBe("gzip");
    const page = await built.request("/", { headers: asBrowser });
    expect(page.headers.get("Cache-Control")).toBe("no-cache");
    const again = await built.request("/", {
      headers: { ...asBrowser, "If-None-Match": page.headers.get("ETag") ?? "" },
    });
    expect(again.status).toBe(304);
    expect(await again.text()).toBe("");
  });

  it("without a built console, / says how to build it", async () => {
    const answer = await pagesOf(join(folder, "nowhere")).request("/", { headers: asBrowser });
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain("npm run console");
  });
});
