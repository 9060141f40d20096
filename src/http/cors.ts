import type { MiddlewareHandler } from "hono";
import { cors } from "hono/cors";

const EXPOSED = [
  "X-Request-Id",
  "Retry-After",
  "Location",
  "Idempotent-Replayed",
  "RateLimit-Limit",
  "RateLimit-Remaining",
  "RateLimit-Reset",
  "X-RateLimit-Limit-Requests",
  "X-RateLimit-Remaining-Requests",
  "X-RateLimit-Reset-Requests",
];
const PREFLIGHT_SECONDS = 600;

/**
 * Lets pages of these origins call the API with a key (PURSER_CORS_ORIGINS). Without credentials: a page of another
 * origin cannot use the console's cookie.
 */
export function allowOrigins(origins: readonly string[]): MiddlewareHandler {
  return cors({
    origin: [...origins],
    allowMethods: ["GET", "POST", "PUT", "PATCH", "DELETE"],
    exposeHeaders: EXPOSED,
    maxAge: PREFLIGHT_SECONDS,
  });
}
