import type { ReactNode } from "react";
import { SelectField } from "../ui/select.tsx";
import type { Policy } from "./draft.ts";

/** The policies in words, the strictest last. */
export const POLICIES = [
  ["always_allow", "Never ask"],
  ["ask_after_untrusted", "Ask after outside content was read"],
  ["always_ask", "Always ask"],
] as const satisfies readonly (readonly [Policy, string])[];

interface Props {
  param?: string;
  value: Policy;
  onValue: (policy: Policy) => void;
  hint?: ReactNode;
}

/** Whether the calls of a tool wait for the owner's approval. */
export function PolicyField({ param, value, onValue, hint }: Props) {
  return (
    <SelectField
      label="Before a call"
      {...(param !== undefined && { param })}
      value={value}
      options={POLICIES}
      onValue={onValue}
      {...(hint !== undefined && { hint })}
    />
  );
}
