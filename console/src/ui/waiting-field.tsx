import { useEffect, useState } from "react";
import { TextField } from "./fields.tsx";

/** How long a filter waits for the next letter. */
const TYPING_MS = 300;

interface WaitingProps {
  label: string;
  type?: string;
  value: string;
  placeholder: string;
  onValue: (value: string) => void;
}

/** A text of a filter, which is applied when the person stops typing. */
export function WaitingField({ value, onValue, ...field }: WaitingProps) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the callback is new in each rendering
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => onValue(text.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return <TextField {...field} className="w-full sm:w-48" maxLength={256} value={text} onValue={setText} />;
}
