import { useState } from "react";
import { Button, Callout } from "./basics.tsx";

/** Text to take away. Without the clipboard (plain http) it can still be selected. */
export function Copyable({ label, text }: { label: string; text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setCopied(true);
  };
  return (
    <div className="flex items-center gap-2">
      <input
        readOnly
        aria-label={label}
        value={text}
        className="control font-mono text-sm"
        onFocus={(event) => event.target.select()}
      />
      {navigator.clipboard !== undefined && (
        <Button icon={copied ? "check" : "copy"} onClick={copy}>
          {copied ? "Copied" : "Copy"}
        </Button>
      )}
    </div>
  );
}

/** A key or a signing secret, which is shown this once. */
export function ShownOnce({ label, text, onDone }: { label: string; text: string; onDone: () => void }) {
  return (
    <div className="space-y-4">
      <Callout tone="warn" icon="warning">
        Copy it now: it is shown this once and never again.
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
