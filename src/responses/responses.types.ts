import type { Envelope } from "../completions/reasoning-envelope.ts";
import type { OutputItem, ResponseRequest } from "../contract/responses.ts";
import type { Callee } from "./tool-names.ts";

/** What the writer of a response needs beside the answer. */
export interface ResponseContext {
  asked: ResponseRequest;
  callees: ReadonlyMap<string, Callee>;
  paramOf(param: string): string;
  created_at: number;
  newId(): string;
  /** Seals what the model's provider needs back. */
  seal(envelope: Envelope): string;
  /** Keeps the items that a later request may refer to. Called once, before the response ends. */
  keep(items: readonly OutputItem[]): Promise<void>;
}
