import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import type { Context } from "hono";
import { html } from "hono/html";
import type { HttpEnv } from "../contract/caller.ts";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import { compressors } from "./compress.ts";

/** The output folder of `console/build.ts`. */
const BUILT = join(import.meta.dirname, "../../../console/dist");
const PAGE = "/index.html";
/** The names of these files change with their content. */
const HASHED = "/assets/";

const TYPES: Record<string, string> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
  woff2: "font/woff2",
};
const COMPRESSIBLE = /^(text\/|image\/svg)/;

/** Hash of the one inline style sheet: Radix Select uses it to hide the scroll bar of its list. */
const SELECT_STYLE = "'sha256-441zG27rExd4/il+NvIqyL8zFx5XmyNQtE381kSkUJk='";
/** Replaces the general headers: the console uses only this service, and no other page may frame it. */
const HEADERS = {
  "Content-Security-Policy":
    `default-src 'none'; script-src 'self'; style-src 'self' ${SELECT_STYLE}; font-src 'self'; img-src 'self' data:; connect-src 'self'; ` +
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Referrer-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
};

interface Asset {
  type: string;
  plain: Uint8Array<ArrayBuffer>;
  /** False if compression gains nothing. */
  is_compressible: boolean;
  /** Made at the first request, because all files would take 30 ms of each start. */
  gzip: Promise<Uint8Array<ArrayBuffer>> | null;
  etag: string;
}

/**
 * Serves the console's files, and its page at each of its addresses. Mount it last: it gets all paths that the API and
 * the reference do not answer. Without a built console, `/` says how to get one.
 */
export function consoleRoutes(folder = BUILT): HttpRouter {
  const router = createRouter();
  const assets = load(folder);
  router.get("*", async (c, next) => {
    const asset = assets.get(c.req.path);
    if (asset !== undefined && c.req.path !== PAGE) return serve(c, asset, c.req.path.startsWith(HASHED));
    if (!isPage(c)) return next();
    const page = assets.get(PAGE);
    return page === undefined ? c.html(notBuilt()) : serve(c, page, false);
  });
  return router;
}

/** True if a browser requests one of the console's pages. */
export function isPage({ req }: Context<HttpEnv>): boolean {
  if (req.path === "/") return true;
  const is_file = req.path.slice(req.path.lastIndexOf("/")).includes(".");
  return !is_file && !req.path.startsWith("/api/") && (req.header("Accept") ?? "").includes("text/html");
}

async function serve(c: Context<HttpEnv>, asset: Asset, forever: boolean): Promise<Response> {
  const headers: Record<string, string> = {
    ...HEADERS,
    "Content-Type": asset.type,
    "Cache-Control": forever ? "public, max-age=31536000, immutable" : "no-cache",
    ETag: asset.etag,
    Vary: "Accept-Encoding",
  };
  if (c.req.header("If-None-Match") === asset.etag) return c.body(null, 304, headers);
  const accepts_gzip = /\bgzip\b/.test(c.req.header("Accept-Encoding") ?? "");
  if (!asset.is_compressible || !accepts_gzip) return c.body(asset.plain, 200, headers);
  asset.gzip ??= compressors.gzip(asset.plain);
  return c.body(await asset.gzip, 200, { ...headers, "Content-Encoding": "gzip" });
}

function load(folder: string): Map<string, Asset> {
  const assets = new Map<string, Asset>();
  for (const file of filesIn(folder)) {
    const type = TYPES[file.slice(file.lastIndexOf(".") + 1)];
    if (type === undefined) continue;
    const plain = new Uint8Array(readFileSync(join(folder, file)));
    const etag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`;
    assets.set(`/${file.split(sep).join("/")}`, {
      type,
      plain,
      etag,
      is_compressible: COMPRESSIBLE.test(type),
      gzip: null,
    });
  }
  return assets;
}

function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, encoding: "utf8" });
  } catch {
    return [];
  }
}

function notBuilt() {
  return html`<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Purser</title>
    <h1>Purser is running</h1>
    <p>Its console has not been built: run <code>npm run console</code> and restart. The API is there: read its <a href="/docs">reference</a>.</p></html>`;
}
