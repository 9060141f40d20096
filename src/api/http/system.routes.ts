import { setTimeout as delay } from "node:timers/promises";
import { errors } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import type { Metrics } from "../../platform/telemetry/metrics.ts";
import { createRouter, json, type Router } from "../contract/endpoint.ts";
import type { RouteDefinition } from "../contract/zod.ts";
import { createGuides, type Page } from "./guides.ts";
import { openApiDocument } from "./openapi.ts";
import { referencePage } from "./reference-page.ts";
import { acceptedEncoding, compressors } from "./write-answer.ts";

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

/** Serves the OpenAPI 3.1 document of `routes`, its page, the guides, and the JSON Schema of the configuration file. */
export function referenceRoutes(
  routes: readonly RouteDefinition[],
  { session_cookie, createFileJsonSchema }: { session_cookie: string; createFileJsonSchema: () => object },
): Router {
  const router = createRouter();
  // They need no key and take tens of milliseconds, so they are built once.
  const documentOf = once(() => openApiDocument(routes, { about: ABOUT, session_cookie }));
  const jsonOf = once(() => Buffer.from(JSON.stringify(documentOf())));
  const pageOf = once(() => referencePage(documentOf()));
  const compressed = { br: once(() => compressors.br(jsonOf())), gzip: once(() => compressors.gzip(jsonOf())) };
  router.plain("/openapi.json", async ({ header }) => {
    const headers = { "Content-Type": "application/json" };
    const encoding = acceptedEncoding(header("accept-encoding"));
    if (encoding === null) return bytes(jsonOf(), headers);
    return bytes(await compressed[encoding](), { ...headers, "Content-Encoding": encoding, Vary: "Accept-Encoding" });
  });
  const schemaOf = once(() => JSON.stringify(createFileJsonSchema()));
  router.plain("/docs/config.schema.json", () => bytes(schemaOf(), { "Content-Type": "application/schema+json" }));
  const guidesOf = once(createGuides);
  router.plain("/docs", () => shown({ type: "text/html; charset=UTF-8", ...pageOf() }));
  router.plain("/docs/{page*}", ({ path }) => {
    const page = guidesOf()(path);
    if (page === null) throw errors.unknown(path, "/docs/guides lists the guides.");
    return shown(page);
  });
  return router;
}

const shown = ({ type, body, policy }: Page) =>
  bytes(body, { "Content-Type": type, ...(policy === undefined ? {} : { "Content-Security-Policy": policy }) });

const bytes = (body: string | Uint8Array, headers: Record<string, string>) =>
  ({ kind: "bytes", status: 200, headers, body }) as const;

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
}): Router {
  const router = createRouter();
  const mode = is_drill ? { mode: "drill" } : {};
  let checking: Promise<NotReady | null> | null = null;
  const check = () => {
    const late = delay(READY_MS, "database_away" as const, { ref: false });
    return Promise.race([ready().catch(() => "database_away" as const), late]).finally(() => {
      checking = null;
    });
  };
  router.plain("/livez", () => json({ status: "ok" }));
  router.plain("/readyz", async () => {
    checking ??= check();
    const reason = await checking;
    return reason === null ? json({ status: "ready", ...mode }) : json({ status: "not ready", reason, ...mode }, 503);
  });
  return router;
}

/** The metrics as text, made at most once a second however often they are read. */
export function metricsRoutes(metrics: Pick<Metrics, "text" | "content_type">): Router {
  const router = createRouter();
  let made: { text: Promise<string>; at_ms: number } | null = null;
  router.plain(METRICS, async () => {
    const now_ms = monotonicMs();
    if (made === null || now_ms - made.at_ms >= METRICS_MS) made = { text: metrics.text(), at_ms: now_ms };
    return bytes(await made.text, { "Content-Type": metrics.content_type });
  });
  return router;
}
