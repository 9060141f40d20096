import { KekUnavailableError } from "./kek.types.ts";

const TIMEOUT_MS = 10_000;

/** The answer of a key service as an object; empty when it was not JSON. */
export interface KeyServiceAnswer {
  status: number;
  body: Record<string, unknown>;
}

/**
 * Sends one request to a key service. Rejects with KekUnavailableError when it is unreachable. Passes on only the
 * status of an error, not its text.
 */
export async function askKeyService(
  kek_id: string,
  request: { method?: "GET" | "POST"; url: string; headers: Record<string, string>; body?: string },
): Promise<KeyServiceAnswer> {
  const { method = "POST", url, headers, body } = request;
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(url, { method, headers, body: body ?? null, redirect: "error", signal });
    const text = await response.text();
    return { status: response.status, body: parseObject(text) };
  } catch (error) {
    throw new KekUnavailableError(kek_id, `${new URL(url).host} cannot be reached`, { cause: error });
  }
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** Decodes a base64 field of an answer. Rejects when it is missing. */
export function bytesOf(kek_id: string, value: unknown): Buffer {
  if (typeof value !== "string") throw new KekUnavailableError(kek_id, "its answer lacks a required field");
  return Buffer.from(value, "base64");
}
