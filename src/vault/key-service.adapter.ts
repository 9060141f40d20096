import { fieldsOf, jsonOrUndefined } from "../platform/lib/json.ts";
import { KekUnavailableError } from "./vault.types.ts";

/** The timeout of one request to a key service. */
export const TIMEOUT_MS = 10_000;

/** Loads a cloud's own client, an optional dependency of its key service. */
export async function loadClient<Client>(kek_id: string, name: string, load: () => Promise<Client>): Promise<Client> {
  try {
    return await load();
  } catch (error) {
    throw new KekUnavailableError(kek_id, `the package ${name} is not installed: run npm ci without --omit=optional`, {
      cause: error,
    });
  }
}

/** The answer of a key service. `body` is empty when it is not a JSON object. */
export interface KeyServiceAnswer {
  status: number;
  body: Record<string, unknown>;
}

/**
 * Sends one request to a key service that the operator configured. Rejects with KekUnavailableError when the service
 * is unreachable. Errors carry only the status, not the service's text.
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
    return { status: response.status, body: fieldsOf(jsonOrUndefined(text)) };
  } catch (error) {
    throw new KekUnavailableError(kek_id, `${new URL(url).host} cannot be reached`, { cause: error });
  }
}

/** Decodes a base64 field of an answer. Rejects when it is missing. */
export function readBytes(kek_id: string, value: unknown): Buffer {
  if (typeof value !== "string") throw new KekUnavailableError(kek_id, "its answer lacks a required field");
  return Buffer.from(value, "base64");
}
