import { createHash } from "node:crypto";
import type { UpstreamRequest } from "../upstream.ts";

/** What a fake model answers. The blocks come in this order: reasoning, text, calls. */
export interface Turn {
  reasoning?: string;
  /** Reasoning that only the provider can read. */
  hidden?: boolean;
  text?: string;
  calls?: { name: string; arguments: object; id?: string | undefined }[];
  /** Why the answer ended; "length": it was cut off. */
  end?: "length";
}

/** The turn that answers the n-th request, counted from 0. */
export type Script = (n: number, request: UpstreamRequest) => Turn;

/** Counts of one call: cached and written tokens are parts of the input. */
export interface Tokens {
  input: number;
  cached: number;
  written: number;
  output: number;
}

/** A fault in a request, for which the real API answers 400. */
export class Rejected extends Error {}

export function reject(message: string): never {
  throw new Rejected(message);
}

export const tokensOf = (text: string): number => Math.ceil(text.length / 4);

/** No prefix under 1,024 tokens is cached. */
export const LEAST_CACHED = 1_024;

/** The opaque data that a fake has issued, and the model that it issued it to. */
export function createSeals() {
  const sealed = new Map<string, string>();
  return {
    seal(model: string, text: string): string {
      const data = createHash("sha256").update(`${sealed.size} ${model} ${text}`).digest("base64");
      sealed.set(data, model);
      return data;
    },
    /** Throws unless this fake issued the data to this model. */
    check(data: unknown, model: string): void {
      if (typeof data !== "string" || sealed.get(data) !== model) reject("invalid signature or encrypted content");
    },
  };
}

export function textOfTurn({ reasoning = "", text = "", calls = [] }: Turn): string {
  return reasoning + text + calls.map((call) => call.name + JSON.stringify(call.arguments)).join("");
}
