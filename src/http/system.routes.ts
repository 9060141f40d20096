import { html } from "hono/html";
import type { HttpRouter } from "../contract/router.ts";
import { createRouter } from "../contract/router.ts";
import type { Metrics } from "../platform/metrics.ts";
import type { OpenApiDocument } from "./reference.ts";
import { referencePage } from "./reference-page.ts";

const ABOUT = {
  openapi: "3.1.0",
  info: {
    title: "Purser",
    version: "1",
    description:
      "Agents, a secret vault and an exact token account. Every path under /api/v1 takes `Authorization: Bearer <API_KEY>`; any OpenAI client works with baseURL = <this address>/api/v1.",
  },
};

/** Registers the security schemes and serves the OpenAPI 3.1 document and its page. Call it on the joined application. */
export function serveReference(app: HttpRouter): void {
  app.openAPIRegistry.registerComponent("securitySchemes", "api_key", { type: "http", scheme: "bearer" });
  app.openAPIRegistry.registerComponent("securitySchemes", "operator_key", { type: "http", scheme: "bearer" });
  let document: OpenApiDocument | undefined;
  const documentOnce = () => {
    document ??= app.getOpenAPI31Document(ABOUT) as unknown as OpenApiDocument;
    return document;
  };
  app.get("/openapi.json", (c) => c.json(documentOnce()));
  app.get("/docs", (c) => c.html(referencePage(documentOnce())));
}

/** Health, metrics, and the page at `/` until the console moves in. `ready` resolves when requests can be served. */
export function systemRoutes(deps: { metrics: Metrics; ready(): Promise<void> }): HttpRouter {
  const router = createRouter();
  router.get("/livez", (c) => c.json({ status: "ok" }));
  router.get("/readyz", async (c) => {
    try {
      await deps.ready();
      return c.json({ status: "ready" });
    } catch {
      return c.json({ status: "not ready" }, 503);
    }
  });
  router.get("/metrics", async (c) =>
    c.body(await deps.metrics.text(), 200, { "Content-Type": deps.metrics.content_type }),
  );
  router.get("/", (c) =>
    c.html(html`<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Purser</title>
      <style>:root{color-scheme:light dark}body{font:16px/1.6 system-ui,sans-serif;max-width:40rem;margin:10vh auto;padding:0 1rem}</style>
      <h1>Purser is running</h1>
      <p>The console is not part of this version. The API is: read its <a href="/docs">reference</a>, or point an OpenAI client at <code>/api/v1</code>.</p></html>`),
  );
  return router;
}
