import type { ResponseRecord, ResponseRequest } from "../../api/contract/responses.ts";
import type { Envelope } from "../completions/reasoning-envelope.ts";
import type { Callee } from "./tool-names.ts";

/** What the writer of a response needs beside the answer. */
export interface ResponseContext {
  asked: ResponseRequest;
  callees: ReadonlyMap<string, Callee>;
  paramOf(param: string): string;
  created_at: number;
  /** The time of the end, in seconds. */
  nowSeconds(): number;
  /** Whether the provider of a model takes a field of chat completions. */
  takes(model: string, field: string): boolean;
  newId(): string;
  /** Seals what the model's provider needs back. */
  seal(envelope: Envelope): string;
  /**
   * Keeps the response and the items that a later request may refer to. Called once, before the response ends. False: the
   * response is not stored.
   */
  keep(response: ResponseRecord): Promise<boolean>;
}
