import { Switch } from "radix-ui";
import {
  createContext,
  type FormEvent,
  type InputHTMLAttributes,
  type ReactNode,
  type Ref,
  useCallback,
  useContext,
  useEffect,
  useId,
  useState,
} from "react";
import { asProblem, type Problem } from "../api/problem.ts";
import { centsOf, money } from "../format.ts";

interface FormErrorValue {
  error: unknown;
  /** The error in the words of its field; null: it concerns no field of the form. */
  told: string | null;
  tell: (told: string) => void;
}
const FormError = createContext<FormErrorValue>({ error: null, told: null, tell: () => {} });

/** The error of a form's last attempt. The field that it concerns shows it. */
export function FormErrorProvider({ value: error, children }: { value: unknown; children: ReactNode }) {
  const [last, setLast] = useState<{ error: unknown; told: string } | null>(null);
  const tell = useCallback((told: string) => setLast({ error, told }), [error]);
  const told = last !== null && last.error === error ? last.told : null;
  return <FormError value={{ error, told, tell }}>{children}</FormError>;
}

/** An error in the words of the form's field that it concerns; null: there is none. */
export function useToldAtField(error: unknown): string | null {
  const form = useContext(FormError);
  return form.error === error ? form.told : null;
}

interface FieldProps {
  label: string;
  hint?: ReactNode;
  /** The API's name for the field. The field shows errors about it. */
  param?: string;
  /** The form was sent without a value, and the browser cannot say so at this control. */
  is_missing?: boolean;
  className?: string;
  children: (props: { id: string; "aria-describedby": string | undefined; "aria-invalid": boolean }) => ReactNode;
}

/** Whether an error concerns the field or a part of it: `hosts[1]` is a part of `hosts`. */
const isWithin = (wrong: string | null, param: string) =>
  wrong !== null && (wrong === param || wrong.startsWith(`${param}[`) || wrong.startsWith(`${param}.`));

/** The error message beside its field, with the field's label in place of its name in the API. */
function atField({ code, param, message }: Problem, label: string, own: string): string {
  if (code === "missing_field") return "This field is required.";
  const text = message.replace(`${param} is not valid: `, "").replace(`${param}: `, "").replace(", or null.", ".");
  if (param !== null && text.startsWith(`${param} `)) {
    const part = param.startsWith(`${own}.`) ? `: ${param.slice(own.length + 1)}` : "";
    return `${label}${part}${text.slice(param.length)}`;
  }
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Opens the folded parts of the page that an element is in. */
export function unfoldAround(element: Element | null): void {
  for (let around = element?.closest("details"); around != null; around = around.parentElement?.closest("details"))
    around.open = true;
}

/** A label, its control, a hint and the error. */
export function Field({ label, hint, param, is_missing = false, className = "", children }: FieldProps) {
  const id = useId();
  const { error, tell } = useContext(FormError);
  const problem = error === null ? null : asProblem(error);
  const wrong = param !== undefined && isWithin(problem?.param ?? null, param);
  const text = wrong && problem !== null && param !== undefined ? atField(problem, label, param) : null;
  const shown = is_missing ? "This field is required." : text;
  useEffect(() => {
    if (text !== null) tell(text.startsWith(label) ? text : `${label}: ${text}`);
  }, [text, label, tell]);
  useEffect(() => {
    if (!wrong || error === null) return;
    const control = document.getElementById(id);
    unfoldAround(control);
    control?.scrollIntoView({ block: "center" }); // away from the fixed bars at the edges
    control?.focus({ preventScroll: true });
  }, [wrong, error, id]);
  const described = [hint !== undefined && `${id}-hint`, shown !== null && `${id}-error`].filter(Boolean).join(" ");
  return (
    <div className={className} data-param={param}>
      <label htmlFor={id} className="mb-1 block font-medium">
        {label}
      </label>
      {children({ id, "aria-describedby": described === "" ? undefined : described, "aria-invalid": shown !== null })}
      {shown !== null && (
        <p id={`${id}-error`} className="mt-1 text-sm text-bad">
          {shown}
        </p>
      )}
      {hint !== undefined && (
        <p id={`${id}-hint`} className="mt-1 text-sm text-pretty text-muted">
          {hint}
        </p>
      )}
    </div>
  );
}

/** The fields of a draft: each with its value, its name in the API, and how typing changes the draft. */
export const fieldsOf =
  <Draft extends object>(draft: Draft, change: (changes: Partial<Draft>) => void) =>
  <Name extends keyof Draft & string>(name: Name, param: string = name) => ({
    param,
    value: draft[name],
    onValue: (value: Draft[Name]) => change({ [name]: value } as unknown as Partial<Draft>),
  });

/** The last day of a date field. Without it, browsers let people type years of six digits. */
export const LAST_DAY = "9999-12-31";

interface TextFieldProps extends Omit<InputHTMLAttributes<HTMLInputElement>, "value" | "onChange"> {
  label: string;
  hint?: ReactNode;
  param?: string;
  ref?: Ref<HTMLInputElement>;
  value: string;
  onValue: (value: string) => void;
}
export function TextField({ label, hint, param, value, onValue, className, ...rest }: TextFieldProps) {
  return (
    <Field
      label={label}
      {...(hint === undefined ? {} : { hint })}
      {...(param === undefined ? {} : { param })}
      className={className ?? ""}
    >
      {(props) => (
        <input
          type="text"
          dir="auto"
          {...rest}
          {...props}
          className="control"
          value={value}
          onChange={(event) => onValue(event.target.value)}
        />
      )}
    </Field>
  );
}

/** The fault of typed dollars, as a sentence, or null. The browser reports an empty field. */
export function wrongDollars(typed: string, least_cents: number): string | null {
  const cents = centsOf(typed);
  if (Number.isNaN(cents)) return typed === "" ? null : "Enter an amount such as 1250 or 12.50.";
  return cents < least_cents ? `The minimum is ${money(least_cents, "usd")}.` : null;
}

/** Dollars, as text: a browser's field for numbers drops the comma of "12,50", which would buy for $1,250. */
export function DollarField({ least_cents, ...field }: TextFieldProps & { least_cents: number }) {
  const wrong = wrongDollars(field.value, least_cents) ?? "";
  return <TextField {...field} required inputMode="decimal" ref={(input) => input?.setCustomValidity(wrong)} />;
}

interface DayProps {
  label: string;
  value: string;
  onValue: (value: string) => void;
}
/** A day of a filter. A year that is half typed is a date too, such as 0020: the filter waits for the rest. */
export function DayField({ label, value, onValue }: DayProps) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const take = (typed: string) => {
    setText(typed);
    if (typed === "" || typed >= "1000") onValue(typed);
  };
  return <TextField label={label} type="date" max={LAST_DAY} className="w-full sm:w-40" value={text} onValue={take} />;
}

interface AreaFieldProps extends Omit<TextFieldProps, "onInput" | "type" | "ref"> {
  rows?: number;
  mono?: boolean;
  /** What is wrong with the text, which the browser reports before the form is sent; null: nothing. */
  wrong?: string | null;
}
export function AreaField({
  label,
  hint,
  param,
  value,
  onValue,
  rows = 4,
  mono = false,
  placeholder,
  required,
  maxLength,
  wrong = null,
  className = "",
}: AreaFieldProps) {
  return (
    <Field
      label={label}
      {...(hint === undefined ? {} : { hint })}
      {...(param === undefined ? {} : { param })}
      className={className}
    >
      {(props) => (
        <textarea
          {...props}
          ref={(area) => area?.setCustomValidity(wrong ?? "")}
          dir="auto"
          rows={rows}
          placeholder={placeholder}
          required={required}
          maxLength={maxLength}
          className={`control field-sizing-content max-h-96 min-h-16 ${mono ? "font-mono text-sm" : ""}`}
          value={value}
          onChange={(event) => onValue(event.target.value)}
          // Browsers scroll to the first line only, and leave the rest behind the bar at the bottom.
          onFocus={(event) => event.target.scrollIntoView({ block: "nearest" })}
        />
      )}
    </Field>
  );
}

interface ToggleProps {
  label: string;
  hint?: ReactNode;
  checked: boolean;
  onChecked: (checked: boolean) => void;
  disabled?: boolean;
}
export function Toggle({ label, hint, checked, onChecked, disabled = false }: ToggleProps) {
  const id = useId();
  return (
    <div className="flex items-start gap-3">
      <Switch.Root
        id={id}
        checked={checked}
        disabled={disabled}
        onCheckedChange={onChecked}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        className="mt-0.5 h-5 w-9 shrink-0 rounded-full border border-edge bg-sunken transition-colors data-[state=checked]:border-accent data-[state=checked]:bg-accent disabled:opacity-50"
      >
        <Switch.Thumb className="block size-3.5 translate-x-0.5 rounded-full bg-edge transition-transform data-[state=checked]:translate-x-[1.1rem] data-[state=checked]:bg-accent-ink" />
      </Switch.Root>
      <div className="min-w-0">
        <label htmlFor={id} className="font-medium">
          {label}
        </label>
        {hint !== undefined && (
          <p id={`${id}-hint`} className="text-sm text-pretty text-muted">
            {hint}
          </p>
        )}
      </div>
    </div>
  );
}

/** Handles a form's submit event by `submit` instead of the browser. A dialog's form may stand within another one in React. */
export const onSubmit = (submit: () => void) => (event: FormEvent) => {
  event.preventDefault();
  event.stopPropagation();
  submit();
};

/**
 * The events of a form that sends `save`. The browser's own error about a field replaces the error of the last attempt; it
 * cannot show one in a folded part.
 */
export const sending = (save: { mutate: () => void; reset: () => void }) => ({
  onSubmit: onSubmit(save.mutate),
  onInvalidCapture: ({ target }: FormEvent) => {
    save.reset();
    unfoldAround(target as Element);
  },
});
