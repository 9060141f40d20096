import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Button } from "./basics.tsx";
import { Icon } from "./icons.tsx";
import { ProblemNotice } from "./problem.tsx";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  wide?: boolean;
}

/** A modal dialog while it is rendered. The browser's own: it keeps the focus in and gives it back. */
export function Dialog({ title, onClose, children, wide = false }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const title_id = useId();
  useEffect(() => {
    const opener = document.activeElement;
    ref.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      aria-labelledby={title_id}
      onClose={onClose}
      onCancel={(event) => event.target !== ref.current && event.stopPropagation()}
      className={`m-auto max-h-[90dvh] w-[calc(100%-2rem)] overflow-auto rounded-2xl border border-line bg-panel p-0 shadow-2xl ${wide ? "max-w-2xl" : "max-w-md"}`}
    >
      <div className="flex items-center justify-between gap-4 border-b border-line px-5 py-3.5">
        <h2 id={title_id} className="text-base font-semibold">
          {title}
        </h2>
        <Button kind="quiet" className="-mr-2 px-1.5" aria-label="Close" onClick={() => ref.current?.close()}>
          <Icon name="close" />
        </Button>
      </div>
      <div className="px-5 py-4">{children}</div>
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  /** What will happen, and whether it can be undone. */
  children: ReactNode;
  act: string;
  onAct: () => Promise<unknown>;
  onClose: () => void;
}

/** Asks before something is destroyed. */
export function Confirm({ title, children, act, onAct, onClose }: ConfirmProps) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const confirmed = async () => {
    setBusy(true);
    setError(null);
    try {
      await onAct();
      onClose();
    } catch (thrown) {
      setError(thrown);
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="space-y-4">
        <div className="text-pretty text-muted">{children}</div>
        {error !== null && <ProblemNotice error={error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Keep it</Button>
          <Button kind="danger" busy={busy} onClick={confirmed}>
            {act}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
