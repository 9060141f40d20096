import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import type { Answer } from "../contract/endpoint.ts";
import { type Exchange, isPage } from "./exchange.ts";
import { compressors } from "./write-answer.ts";

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

/** Answers with a page or file of the console; null for other addresses. */
export type ConsolePages = (exchange: Exchange) => Promise<Answer> | null;

/**
 * Serves the console's files, and its page at each of its addresses. Ask it last: it takes all paths that the API and
 * the reference do not answer. Without a built console, `/` says how to get one.
 */
export function createConsolePages(folder = BUILT): ConsolePages {
  const assets = loadAssets(folder);
  const page = assets.get(PAGE);
  return (exchange) => {
    const { method, path } = exchange;
    if (method !== "GET" && method !== "HEAD") return null;
    const asset = assets.get(path);
    if (asset !== undefined && path !== PAGE) return serve(exchange, asset, path.startsWith(HASHED));
    if (!isPage(exchange)) return null;
    return page === undefined ? Promise.resolve(notBuilt()) : serve(exchange, page, false);
  };
}

async function serve({ header }: Exchange, asset: Asset, forever: boolean): Promise<Answer> {
  const headers: Record<string, string> = {
    ...HEADERS,
    "Content-Type": asset.type,
    "Cache-Control": forever ? "public, max-age=31536000, immutable" : "no-cache",
    ETag: asset.etag,
    Vary: "Accept-Encoding",
  };
  if (header("if-none-match") === asset.etag) return { kind: "empty", status: 304, headers };
  const accepts_gzip = /\bgzip\b/.test(header("accept-encoding") ?? "");
  if (!asset.is_compressible || !accepts_gzip) return { kind: "bytes", status: 200, headers, body: asset.plain };
  asset.gzip ??= compressors.gzip(asset.plain);
  return { kind: "bytes", status: 200, headers: { ...headers, "Content-Encoding": "gzip" }, body: await asset.gzip };
}

function loadAssets(folder: string): Map<string, Asset> {
  const assets = new Map<string, Asset>();
  for (const file of listFiles(folder)) {
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

function listFiles(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, encoding: "utf8" });
  } catch {
    return [];
  }
}

function notBuilt(): Answer {
  const headers = { "Content-Type": "text/html; charset=UTF-8" };
  return { kind: "bytes", status: 200, headers, body: NOT_BUILT };
}

const NOT_BUILT = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Purser</title>
<h1>Purser is running</h1>
<p>Its console has not been built: run <code>npm run console</code> and restart. The API is there: read its <a href="/docs">reference</a>.</p></html>`;
