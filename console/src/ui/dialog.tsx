import { type UseMutationResult, useMutation } from "@tanstack/react-query";
import {
  type ComponentProps,
  createContext,
  type ReactNode,
  useContext,
  useEffect,
  useId,
  useRef,
  useState,
} from "react";
import { createPortal } from "react-dom";
import { keepOpenWhile } from "../api/session.ts";
import { Button } from "./basics.tsx";
import { FormErrorProvider, onSubmit, sending, TextField } from "./fields.tsx";
import { Icon } from "./icons.tsx";
import { ProblemNotice } from "./problem.tsx";
import { confirmSaved } from "./saved.tsx";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  wide?: boolean;
}

/** The control that gets the focus back. An entry of a menu goes with its menu, so it is the menu's button then. */
function openerOf(active: Element | null): HTMLElement | null {
  const button = active?.closest("[role=menu]")?.getAttribute("aria-labelledby");
  const opener = button == null ? active : document.getElementById(button);
  return opener instanceof HTMLElement && opener !== document.body ? opener : null;
}

const KeepOpen = createContext<(is_kept: boolean) => void>(() => {});

/** Keeps the dialog open against Escape: during a request, because Escape does not stop it, and while a key is shown once. */
export function useKeptOpen(is_kept: boolean): void {
  const keep = useContext(KeepOpen);
  useEffect(() => {
    keep(is_kept);
    return () => keep(false);
  }, [keep, is_kept]);
}

/** A modal dialog while it is rendered. The browser's own element keeps the focus inside and returns it at the end. */
export function Dialog({ title, onClose, children, wide = false }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const title_id = useId();
  const [is_kept, setKept] = useState(false);
  useEffect(() => {
    const opener = openerOf(document.activeElement);
    ref.current?.showModal();
    // The browser would focus the close button first.
    const field = ref.current?.querySelector<HTMLElement>("form :is(input, textarea, [role=combobox]):not([readonly])");
    (field ?? document.getElementById(title_id))?.focus();
    return () => {
      // A deleted row takes its button along. The keyboard goes on from the page's content then.
      (opener?.isConnected === true ? opener : document.querySelector<HTMLElement>("main"))?.focus();
    };
  }, [title_id]);
  // A dialog in a form would put its own form into that form.
  return createPortal(
    <dialog
      ref={ref}
      aria-labelledby={title_id}
      onClose={onClose}
      onCancel={(event) => {
        if (event.target !== ref.current) event.stopPropagation();
        else if (is_kept) event.preventDefault();
      }}
      // Browsers close on a second Escape although the first one was prevented.
      closedby={is_kept ? "none" : "closerequest"}
      className={`m-auto max-h-[90dvh] w-[calc(100%-2rem)] overflow-auto rounded-2xl border border-line bg-panel p-0 text-left shadow-2xl ${wide ? "max-w-2xl" : "max-w-md"}`}
    >
      <div className="flex items-center justify-between gap-4 border-b border-line px-5 py-3.5">
        <h2 id={title_id} tabIndex={-1} className="min-w-0 text-base font-semibold wrap-anywhere outline-none">
          {title}
        </h2>
        <Button
          kind="quiet"
          className="-mr-2 px-1.5"
          aria-label="Close"
          disabled={is_kept}
          onClick={() => ref.current?.close()}
        >
          <Icon name="close" />
        </Button>
      </div>
      <KeepOpen value={setKept}>
        <div className="px-5 py-4">{children}</div>
      </KeepOpen>
    </dialog>,
    document.body,
  );
}

interface ConfirmProps {
  title: string;
  /** Says what will happen and whether it can be undone. */
  children: ReactNode;
  /** Verb and object of the action, on its button. */
  action: string;
  /** Text of the other button. */
  keep?: string;
  kind?: "danger" | "primary";
  /** The person must type this first. */
  typed?: string;
  /** The message after success. */
  saved?: string;
  disabled?: boolean;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
}

/** Asks before a deletion or a payment. */
export function Confirm(props: ConfirmProps) {
  const {
    title,
    children,
    action,
    keep = "Cancel",
    kind = "danger",
    typed,
    saved,
    disabled = false,
    onConfirm,
    onClose,
  } = props;
  const [text, setText] = useState("");
  const confirm = useMutation({
    mutationFn: onConfirm,
    onSuccess: () => {
      onClose();
      if (saved !== undefined) confirmSaved(saved);
    },
  });
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={onSubmit(confirm.mutate)} className="space-y-4">
        <div className="text-pretty wrap-anywhere text-muted">{children}</div>
        {typed !== undefined && (
          <TextField
            label="To confirm, type the e-mail address"
            hint={typed}
            autoComplete="off"
            spellCheck={false}
            value={text}
            onValue={setText}
          />
        )}
        <FormEnd
          error={confirm.error}
          busy={confirm.isPending}
          onCancel={onClose}
          cancel={keep}
          kind={kind}
          disabled={disabled || (typed !== undefined && text.trim() !== typed)}
        >
          {action}
        </FormEnd>
      </form>
    </Dialog>
  );
}

interface DialogFormProps {
  save: UseMutationResult<unknown, Error, void>;
  /** Verb and object, on the submit button. */
  action: ReactNode;
  kind?: ComponentProps<typeof Button>["kind"];
  disabled?: boolean;
  autoComplete?: "off";
  onCancel: () => void;
  children: ReactNode;
}

/** The form of a dialog: its fields, the error of the last attempt and the two buttons. */
export function DialogForm({ save, action, kind, disabled, autoComplete, onCancel, children }: DialogFormProps) {
  const is_changed = useRef(false);
  useEffect(() => keepOpenWhile(() => is_changed.current), []);
  return (
    <FormErrorProvider value={save.error}>
      <form
        {...sending(save)}
        onChange={() => {
          is_changed.current = true;
        }}
        className="space-y-4"
        autoComplete={autoComplete}
      >
        {children}
        <FormEnd error={save.error} busy={save.isPending} onCancel={onCancel} kind={kind} disabled={disabled}>
          {action}
        </FormEnd>
      </form>
    </FormErrorProvider>
  );
}

interface FormEndProps {
  /** The error of the last attempt; null: none. */
  error: ComponentProps<typeof ProblemNotice>["error"] | null;
  busy: boolean;
  onCancel: () => void;
  cancel?: ReactNode;
  kind?: ComponentProps<typeof Button>["kind"] | undefined;
  disabled?: boolean | undefined;
  /** Text of the submit button. */
  children: ReactNode;
}

/** The end of a dialog's form: the error and the two buttons. */
export function FormEnd({
  error,
  busy,
  onCancel,
  cancel = "Cancel",
  kind = "primary",
  disabled = false,
  children,
}: FormEndProps) {
  useKeptOpen(busy);
  return (
    <>
      {error !== null && <ProblemNotice error={error} />}
      <div className="flex flex-wrap justify-end gap-2">
        <Button disabled={busy} onClick={onCancel}>
          {cancel}
        </Button>
        <Button type="submit" kind={kind} busy={busy} disabled={disabled}>
          {children}
        </Button>
      </div>
    </>
  );
}
