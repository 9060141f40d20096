import type { OutsideWords } from "../../api/contract/runs.ts";
import { newMark, unfenced } from "../../safety/fence.ts";
import { BUSY } from "../../safety/sanitizer.ts";
import { leakIn, type OpenedCredential } from "./credentials.ts";
import { readFetched } from "./fetched-text.ts";
import type { ToolDeps } from "./tool.ts";
import type { RunRef, ToolResult } from "./tools.types.ts";

/** What a server said of a failure, for the agent's owner. */

const MAX_WORDS_CHARS = 500;
/** Of an answer that is read only for its first words. */
const MAX_READ_BYTES = 16_384;

/** The first words of a text that the safety layer has fenced with `mark`, on one line. */
export function outsideWords(status: number | null, fenced: string | null, mark: string): OutsideWords {
  const text = fenced === null ? "" : unfenced(fenced, mark).replaceAll(/\s+/g, " ").trim();
  return { status, text: text === "" ? null : text.slice(0, MAX_WORDS_CHARS).toWellFormed() };
}

/**
 * The first words of an answer that no other code reads; null text: it cannot be shown. Returns a failed step that ends
 * the run if they hold a secret.
 */
export async function wordsOfAnswer(
  { status, body, content_type }: { status: number; body: Buffer; content_type: string },
  { credentials, run }: { credentials: readonly OpenedCredential[]; run: RunRef },
  deps: ToolDeps,
): Promise<OutsideWords | ToolResult> {
  const read = body.length === 0 ? "pdf" : await readFetched(body.subarray(0, MAX_READ_BYTES), content_type, "");
  if (read === "pdf" || "problem" in read) return { status, text: null };
  const mark = newMark();
  const sanitizer = deps.sanitizer.of(run.user_id);
  const safe = await sanitizer.sanitize({ ...read, level: "balanced", mark, max_chars: MAX_WORDS_CHARS * 2 });
  if (safe === BUSY || safe === null) return { status, text: null };
  const words = outsideWords(status, safe.text, mark);
  return (await leakIn([words.text ?? ""], { credentials, run }, deps)) ?? words;
}
