import { useEffect, useRef, useState } from "react";
import { Button, Callout } from "./basics.tsx";

/** How long the button confirms the copy. */
const CONFIRMED_MS = 3000;

type Result = "copied" | "selected" | null;

/** Text with a copy button. Where the browser denies the copy, the text is selected for the keyboard. */
export function Copyable({ label, text }: { label: string; text: string }) {
  const field = useRef<HTMLTextAreaElement>(null);
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
    field.current?.select();
    // Pages on plain http have no clipboard interface, but may have this one.
    setResult(document.execCommand("copy") ? "copied" : "selected");
  };
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
        <Button icon={result === "copied" ? "check" : "copy"} onClick={copy}>
          {result === "copied" ? "Copied" : "Copy"}
        </Button>
      </div>
      <p role="status" className={result === "selected" ? "mt-1 text-sm text-muted" : "sr-only"}>
        {result === "copied" && `${label} copied.`}
        {result === "selected" && "The browser denied the copy. The text is selected: press Ctrl+C or ⌘C."}
      </p>
    </div>
  );
}

/** An API key or a signing secret. The service shows it only once. */
export function ShownOnce({ label, text, onDone }: { label: string; text: string; onDone: () => void }) {
  return (
    <div className="space-y-4">
      <Callout tone="warn" icon="warning">
        Copy it now. You cannot see it again.
      </Callout>
      <Copyable label={label} text={text} />
      <div className="flex justify-end">
        <Button kind="primary" onClick={onDone}>
          I have copied it
        </Button>
      </div>
    </div>
  );
}
