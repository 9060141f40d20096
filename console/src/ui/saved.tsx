import { type ReactNode, useEffect, useSyncExternalStore } from "react";
import { Icon } from "./icons.tsx";

/** How long the message is shown. */
const SHOWN_MS = 5000;
const LINK_SHOWN_MS = 10_000;

let message: { text: string; link: ReactNode } | null = null;
const listeners = new Set<() => void>();

function show(next: typeof message): void {
  message = next;
  for (const listener of listeners) listener();
}

/** Confirms a change to the person: "Agent saved". `link` leads to what changed. */
export const confirmSaved = (text: string, link: ReactNode = null): void => show({ text, link });

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Shows the last confirmation for some seconds. Screen readers announce it. */
export function SavedNotice() {
  const shown = useSyncExternalStore(subscribe, () => message);
  useEffect(() => {
    if (shown === null) return;
    const timer = setTimeout(() => show(null), shown.link === null ? SHOWN_MS : LINK_SHOWN_MS);
    return () => clearTimeout(timer);
  }, [shown]);
  return (
    <div
      role="status"
      className="pointer-events-none fixed inset-x-4 bottom-4 z-30 flex justify-center md:left-auto md:justify-end"
    >
      {shown !== null && (
        <p className="pointer-events-auto flex items-center gap-2 rounded-lg border border-line bg-panel px-3.5 py-2.5 font-medium wrap-anywhere shadow-lg">
          <Icon name="check" className="size-4 text-good" />
          {shown.text}
          {shown.link}
        </p>
      )}
    </div>
  );
}
