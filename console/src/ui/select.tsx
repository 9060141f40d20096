import { Select as RadixSelect } from "radix-ui";
import { type FormEvent, type ReactNode, useState } from "react";
import { Field } from "./fields.tsx";
import { Icon } from "./icons.tsx";

/** Radix reserves the empty value for "nothing chosen". */
const EMPTY = "(empty)";

interface SelectProps<Value extends string> {
  value: Value;
  options: readonly (readonly [Value, string])[];
  onValue: (value: Value) => void;
  disabled?: boolean | undefined;
  /** The empty option is a placeholder and cannot be chosen. */
  required?: boolean | undefined;
  className?: string;
  id?: string;
  "aria-label"?: string;
  "aria-describedby"?: string | undefined;
  "aria-invalid"?: boolean;
}

/** A choice from a list. The list stays inside its parent: a modal dialog covers everything outside itself. */
export function Select<Value extends string>(props: SelectProps<Value>) {
  const { value, options, onValue, disabled, required, className = "w-full", ...trigger } = props;
  const items = required === true ? options.filter(([option]) => option !== "") : options;
  const chosen = value !== "" ? value : required === true ? "" : EMPTY;
  return (
    <RadixSelect.Root
      value={chosen}
      onValueChange={(next) => onValue((next === EMPTY ? "" : next) as Value)}
      {...(disabled === undefined ? {} : { disabled })}
      {...(required === undefined ? {} : { required })}
    >
      <RadixSelect.Trigger
        {...trigger}
        className={`control flex items-center justify-between gap-2 text-left data-[placeholder]:text-muted ${className}`}
      >
        <span className="truncate">
          <RadixSelect.Value placeholder={options.find(([option]) => option === "")?.[1] ?? ""} />
        </span>
        <Icon name="down" className="size-3.5 text-muted" />
      </RadixSelect.Trigger>
      <RadixSelect.Content
        position="popper"
        sideOffset={4}
        collisionPadding={8}
        className="z-30 max-h-[min(24rem,var(--radix-select-content-available-height))] max-w-[calc(100vw-1rem)] min-w-(--radix-select-trigger-width) overflow-hidden rounded-lg border border-line bg-panel shadow-lg"
      >
        <RadixSelect.Viewport className="p-1">
          {items.map(([option, text]) => (
            <RadixSelect.Item
              key={option}
              value={option === "" ? EMPTY : option}
              className="flex cursor-pointer items-center justify-between gap-3 rounded-md px-2.5 py-1.5 outline-none select-none data-[highlighted]:bg-accent-soft"
            >
              <RadixSelect.ItemText>{text}</RadixSelect.ItemText>
              <RadixSelect.ItemIndicator>
                <Icon name="check" className="size-3.5 text-accent" />
              </RadixSelect.ItemIndicator>
            </RadixSelect.Item>
          ))}
        </RadixSelect.Viewport>
      </RadixSelect.Content>
    </RadixSelect.Root>
  );
}

interface SelectFieldProps<Value extends string> extends SelectProps<Value> {
  label: string;
  hint?: ReactNode;
  param?: string;
}
export function SelectField<Value extends string>({
  label,
  hint,
  param,
  className,
  ...select
}: SelectFieldProps<Value>) {
  const [was_missing, setMissing] = useState(false);
  // The browser would focus the hidden select beside the button, and the person would not see the focus.
  const onInvalid = (event: FormEvent<HTMLElement>) => {
    event.preventDefault();
    setMissing(true);
    event.currentTarget.querySelector("button")?.focus();
  };
  return (
    <Field
      label={label}
      is_missing={was_missing && select.value === ""}
      {...(hint === undefined ? {} : { hint })}
      {...(param === undefined ? {} : { param })}
      className={className ?? ""}
    >
      {(props) => (
        <div className="contents" onInvalidCapture={onInvalid}>
          <Select {...select} {...props} />
        </div>
      )}
    </Field>
  );
}
