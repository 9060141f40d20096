import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "../../platform/lib/clock.ts";
import type { Metrics } from "../../platform/telemetry/metrics.ts";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import { acceptedEncoding, compressors } from "./compress.ts";
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
  const jsonOf = once(() => Buffer.from(JSON.stringify(documentOf())));
  const pageOf = once(() => String(referencePage(documentOf())));
  const compressed = { br: once(() => compressors.br(jsonOf())), gzip: once(() => compressors.gzip(jsonOf())) };
  app.get("/openapi.json", async (c) => {
    const headers = { "Content-Type": "application/json" };
    const encoding = acceptedEncoding(c.req.header("Accept-Encoding"));
    if (encoding === null) return c.body(jsonOf(), 200, headers);
    const body = await compressed[encoding]();
    return c.body(body, 200, { ...headers, "Content-Encoding": encoding, Vary: "Accept-Encoding" });
  });
  app.get("/docs", (c) => c.html(pageOf(), 200, { "Content-Security-Policy": REFERENCE_PAGE_POLICY }));
}

function once<Value>(make: () => Value): () => Value {
  let made: { value: Value } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

export const METRICS = "/metrics";
/** contract 1.6.3: the text of the metrics takes tens of milliseconds, and a check of readiness a query. */
const METRICS_MS = 1_000;

/** contract 1.6: `/readyz` answers within this time, also when the database does not. */
const READY_MS = 2_000;

/** Why a node cannot work. */
export type NotReady = "stopping" | "database_away" | "database_disk_full" | "clock_skew";

/** Health of a node. `ready` resolves to null when the node can work; requests that arrive together share one check. */
export function healthRoutes({
  ready,
  is_drill,
}: {
  ready: () => Promise<NotReady | null>;
  is_drill: boolean;
}): HttpRouter {
  const router = createRouter();
  const mode = is_drill ? { mode: "drill" } : {};
  let checking: Promise<NotReady | null> | null = null;
  const check = () => {
    const late = delay(READY_MS, "database_away" as const, { ref: false });
    return Promise.race([ready().catch(() => "database_away" as const), late]).finally(() => {
      checking = null;
    });
  };
  router.get("/livez", (c) => c.json({ status: "ok" }));
  router.get("/readyz", async (c) => {
    checking ??= check();
    const reason = await checking;
    return reason === null
      ? c.json({ status: "ready", ...mode })
      : c.json({ status: "not ready", reason, ...mode }, 503);
  });
  return router;
}

/** The metrics as text, made at most once a second however often they are read. */
export function metricsRoutes(metrics: Pick<Metrics, "text" | "content_type">): HttpRouter {
  const router = createRouter();
  let made: { text: Promise<string>; at_ms: number } | null = null;
  router.get(METRICS, async (c) => {
    const now_ms = monotonicMs();
    if (made === null || now_ms - made.at_ms >= METRICS_MS) made = { text: metrics.text(), at_ms: now_ms };
    return c.body(await made.text, 200, { "Content-Type": metrics.content_type });
  });
  return router;
}
