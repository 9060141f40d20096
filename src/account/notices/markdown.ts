import { createFairQueue } from "../../platform/lib/fair-queue.ts";
import { createThreadPool, threadFile } from "../../platform/lib/thread-pool.ts";

/** Ordinary texts take milliseconds, but some of a few kilobytes take minutes. Then a text stays plain. */
const RENDER_MS = 5_000;
const MEMORY_MB = 256;
const QUEUE = { slots: 1, waiting: 128, waiting_each: 16 } as const;

export interface MarkdownRenderer {
  /** The text as HTML without pictures and without HTML of the text's own; plain if it cannot be rendered in time. */
  toHtml(text: string, user_id: string): Promise<string>;
}

/** Renders Markdown in one thread; users take turns. The thread starts with the first text. */
export function createMarkdownRenderer({ render_ms = RENDER_MS } = {}): MarkdownRenderer {
  const threads = createThreadPool<string>(threadFile(import.meta.dirname, "markdown.worker"), {
    memory_mb: MEMORY_MB,
    env: {},
  });
  const queue = createFairQueue(QUEUE);
  return {
    async toHtml(text, user_id) {
      const inTurn = () => threads.ask<string>(text, AbortSignal.timeout(render_ms));
      return queue
        .run(user_id, AbortSignal.timeout(2 * render_ms), inTurn)
        .catch(() => `<pre style="white-space: pre-wrap">${escapeHtml(text)}</pre>`);
    },
  };
}

/** The text as HTML that shows it. */
export function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
