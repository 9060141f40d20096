import { type ReactNode, useEffect, useRef, useState } from "react";
import { Button, Callout } from "./basics.tsx";
import { useKeptOpen } from "./dialog.tsx";

/** How long the button confirms the copy. */
const CONFIRMED_MS = 3000;

type Result = "copied" | "selected" | null;

/** A button that copies `text`. Where the browser denies the copy, `select` selects the text for the keyboard. */
function useCopy(label: string, text: string, select: () => void) {
  const [result, setResult] = useState<Result>(null);
  useEffect(() => {
    if (result !== "copied") return;
    const timer = setTimeout(() => setResult(null), CONFIRMED_MS);
    return () => clearTimeout(timer);
  }, [result]);
  const copy = async () => {
    const copied = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    if (copied === true) return setResult("copied");
    select();
    // Pages on plain http have no clipboard interface, but may have this one.
    setResult(document.execCommand("copy") ? "copied" : "selected");
  };
  return {
    button: (name?: string) => (
      <Button
        icon={result === "copied" ? "check" : "copy"}
        onClick={copy}
        {...(name === undefined ? {} : { "aria-label": name })}
      >
        {result === "copied" ? "Copied" : "Copy"}
      </Button>
    ),
    status: (
      <p role="status" className={result === "selected" ? "mt-1 text-sm text-muted" : "sr-only"}>
        {result === "copied" && `${label} copied.`}
        {result === "selected" && "The browser denied the copy. The text is selected: press Ctrl+C or ⌘C."}
      </p>
    ),
  };
}

/** One line of text with a copy button. */
export function Copyable({ label, text, focused = false }: { label: string; text: string; focused?: boolean }) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (focused) field.current?.focus();
  }, [focused]);
  const { button, status } = useCopy(label, text, () => field.current?.select());
  return (
    <div>
      <div className="flex items-start gap-2">
        <textarea
          ref={field}
          readOnly
          rows={1}
          aria-label={label}
          value={text}
          className="control field-sizing-content resize-none font-mono text-sm break-all"
          onFocus={(event) => event.target.select()}
        />
        {button()}
      </div>
      {status}
    </div>
  );
}

/** A file or command with its name and a copy button. Long lines scroll. */
export function CodeBlock({ name, text }: { name: string; text: string }) {
  const code = useRef<HTMLPreElement>(null);
  const { button, status } = useCopy(name, text, () => {
    if (code.current !== null) getSelection()?.selectAllChildren(code.current);
  });
  return (
    <div>
      <div className="mb-1 flex items-center justify-between gap-2">
        <code className="min-w-0 text-sm text-muted wrap-anywhere">{name}</code>
        {button(`Copy ${name}`)}
      </div>
      <pre
        ref={code}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls long lines
        tabIndex={0}
        className="overflow-x-auto rounded-lg bg-sunken p-3 font-mono text-sm leading-normal wrap-normal"
      >
        {text}
      </pre>
      {status}
    </div>
  );
}

interface ShownOnceProps {
  label: string;
  text: string;
  onDone: () => void;
  /** Buttons before the last one. */
  children?: ReactNode;
}

/** An API key or a signing secret. The service shows it only once. */
export function ShownOnce({ label, text, onDone, children }: ShownOnceProps) {
  useKeptOpen(true);
  return (
    <div className="space-y-4">
      <Callout tone="warn" icon="warning">
        Copy it now. You cannot see it again.
      </Callout>
      <Copyable label={label} text={text} focused />
      <div className="flex flex-wrap justify-end gap-2">
        {children}
        <Button kind="primary" onClick={onDone}>
          I have copied it
        </Button>
      </div>
    </div>
  );
}
