import { setTimeout as delay } from "node:timers/promises";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import type { Metrics } from "../platform/metrics.ts";
import { securitySchemes, withConventions } from "./openapi.ts";
import type { OpenApiDocument } from "./reference.ts";
import { REFERENCE_PAGE_POLICY, referencePage } from "./reference-page.ts";

const ABOUT = {
  openapi: "3.1.0",
  servers: [{ url: "/", description: "this service" }],
  info: {
    title: "Purser",
    version: "1",
    license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    description:
      "Agents, a secret vault and an exact token account. Every path under /api/v1 takes `Authorization: Bearer <API_KEY>`; any OpenAI client works with baseURL = <this address>/api/v1.",
  },
};

/** Registers the security schemes and serves the OpenAPI 3.1 document and its page. Call it on the joined application. */
export function serveReference(app: HttpRouter, session_cookie: string): void {
  for (const [name, scheme] of Object.entries(securitySchemes(session_cookie))) {
    app.openAPIRegistry.registerComponent("securitySchemes", name, scheme);
  }
  // Both need no key and take tens of milliseconds, so they are built once.
  const documentOf = once(() => withConventions(app.getOpenAPI31Document(ABOUT) as unknown as OpenApiDocument));
  const jsonOf = once(() => JSON.stringify(documentOf()));
  const pageOf = once(() => String(referencePage(documentOf())));
  app.get("/openapi.json", (c) => c.body(jsonOf(), 200, { "Content-Type": "application/json" }));
  app.get("/docs", (c) => c.html(pageOf(), 200, { "Content-Security-Policy": REFERENCE_PAGE_POLICY }));
}

function once<Value>(make: () => Value): () => Value {
  let made: { value: Value } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** contract 1.6: `/readyz` answers within this time, also when the database does not. */
const READY_MS = 2_000;

/** Why a node cannot work. */
export type NotReady = "stopping" | "database_away" | "database_disk_full" | "clock_skew";

/** Health and metrics of every node. `ready` resolves to null when the node can work. */
export function probeRoutes(deps: { metrics: Metrics; ready(): Promise<NotReady | null> }): HttpRouter {
  const router = createRouter();
  router.get("/livez", (c) => c.json({ status: "ok" }));
  router.get("/readyz", async (c) => {
    const late = delay(READY_MS, "database_away" as const, { ref: false });
    const reason = await Promise.race([deps.ready().catch(() => "database_away" as const), late]);
    return reason === null ? c.json({ status: "ready" }) : c.json({ status: "not ready", reason }, 503);
  });
  router.get("/metrics", async (c) =>
    c.body(await deps.metrics.text(), 200, { "Content-Type": deps.metrics.content_type }),
  );
  return router;
}
