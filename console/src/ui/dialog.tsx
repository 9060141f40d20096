import { type ComponentProps, type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { useAct } from "./act.ts";
import { Button } from "./basics.tsx";
import { TextField } from "./fields.tsx";
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
    // the browser would begin at the button that closes it
    const field = ref.current?.querySelector<HTMLElement>("form :is(input, textarea, select):not([readonly])");
    (field ?? document.getElementById(title_id))?.focus();
    return () => {
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, [title_id]);
  return (
    <dialog
      ref={ref}
      aria-labelledby={title_id}
      onClose={onClose}
      onCancel={(event) => event.target !== ref.current && event.stopPropagation()}
      className={`m-auto max-h-[90dvh] w-[calc(100%-2rem)] overflow-auto rounded-2xl border border-line bg-panel p-0 shadow-2xl ${wide ? "max-w-2xl" : "max-w-md"}`}
    >
      <div className="flex items-center justify-between gap-4 border-b border-line px-5 py-3.5">
        <h2 id={title_id} tabIndex={-1} className="min-w-0 text-base font-semibold break-words outline-none">
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
  /** What the other button says. */
  keep?: string;
  kind?: "danger" | "primary";
  /** What has to be typed first, for what is worse than a slip. */
  typed?: string;
  onAct: () => Promise<unknown>;
  onClose: () => void;
}

/** Asks before something is destroyed or paid. */
export function Confirm({ title, children, act, keep, kind = "danger", typed, onAct, onClose }: ConfirmProps) {
  const [text, setText] = useState("");
  const { act: attempt, busy, error } = useAct();
  const confirm = (event: FormEvent) => {
    event.preventDefault();
    void attempt(async () => {
      await onAct();
      onClose();
    });
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={confirm} className="space-y-4">
        <div className="text-pretty text-muted">{children}</div>
        {typed !== undefined && (
          <TextField
            label="To go on, type the address"
            hint={typed}
            autoComplete="off"
            spellCheck={false}
            value={text}
            onValue={setText}
          />
        )}
        <FormEnd
          error={error}
          busy={busy}
          onCancel={onClose}
          cancel={keep ?? (kind === "danger" ? "Keep it" : "Cancel")}
          kind={kind}
          disabled={typed !== undefined && text.trim() !== typed}
        >
          {act}
        </FormEnd>
      </form>
    </Dialog>
  );
}

interface FormEndProps {
  /** What went wrong with the last try; null: nothing. */
  error: ComponentProps<typeof ProblemNotice>["error"] | null;
  busy: boolean;
  onCancel: () => void;
  cancel?: ReactNode;
  kind?: ComponentProps<typeof Button>["kind"];
  disabled?: boolean;
  /** What the form does. */
  children: ReactNode;
}

/** The end of a dialog's form: what went wrong, and the two ways out. */
export function FormEnd({
  error,
  busy,
  onCancel,
  cancel = "Cancel",
  kind = "primary",
  disabled = false,
  children,
}: FormEndProps) {
  return (
    <>
      {error !== null && <ProblemNotice error={error} />}
      <div className="flex justify-end gap-2">
        <Button onClick={onCancel}>{cancel}</Button>
        <Button type="submit" kind={kind} busy={busy} disabled={disabled}>
          {children}
        </Button>
      </div>
    </>
  );
}
