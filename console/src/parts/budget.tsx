import { ago, count, number } from "../format.ts";
import { Meter } from "../ui/chart.tsx";
import { TextField } from "../ui/fields.tsx";
import { SelectField } from "../ui/select.tsx";

/** Budgets of API keys and end users. */

type Interval = "day" | "week" | "month";
const INTERVALS: readonly (readonly ["" | Interval, string])[] = [
  ["", "Never"],
  ["day", "Each day (UTC)"],
  ["week", "Each week, on Monday (UTC)"],
  ["month", "Each month (UTC)"],
];

/** A budget as it is typed. Empty: no budget, and an interval that never starts again. */
export interface BudgetDraft {
  budget: string;
  interval: "" | Interval;
}

interface Budget {
  budget_tokens: number | null;
  budget_interval: Interval | null;
}

export const budgetDraftOf = ({ budget_tokens, budget_interval }: Budget): BudgetDraft => ({
  budget: budget_tokens === null ? "" : String(budget_tokens),
  interval: budget_interval ?? "",
});

/** The budget as the API takes it. */
export const budgetOf = ({ budget, interval }: BudgetDraft): Budget =>
  budget === ""
    ? { budget_tokens: null, budget_interval: null }
    : { budget_tokens: Number(budget), budget_interval: interval === "" ? null : interval };

interface BudgetFieldsProps {
  draft: BudgetDraft;
  onDraft: (changes: Partial<BudgetDraft>) => void;
  /** The used part of the present budget; null: nothing yet. */
  used: Used | null;
  required?: boolean;
}

/** The budget and its interval, for a form. */
export function BudgetFields({ draft, onDraft, used, required = false }: BudgetFieldsProps) {
  return (
    <>
      <TextField
        label="Budget in tokens"
        param="budget_tokens"
        type="number"
        min={0}
        inputMode="numeric"
        required={required}
        value={draft.budget}
        onValue={(budget) => onDraft({ budget })}
        placeholder={required ? "" : "No limit"}
        {...(used === null ? {} : { hint: `Used: ${count(used.budget_used_tokens, "token")}` })}
      />
      <SelectField
        label="Budget starts again"
        param="budget_interval"
        value={draft.interval}
        onValue={(interval) => onDraft({ interval })}
        options={INTERVALS}
        disabled={draft.budget === ""}
        {...(used === null || used.budget_resets_at === null ? {} : { hint: `Next: ${ago(used.budget_resets_at)}` })}
      />
    </>
  );
}

interface Used {
  budget_used_tokens: number;
  budget_resets_at: string | null;
}

/** How much of a budget is used, and when the budget starts again. */
export function BudgetUse({ name, budget_tokens, used }: { name: string; budget_tokens: number; used: Used }) {
  const { budget_used_tokens, budget_resets_at } = used;
  return (
    <div className="min-w-28 md:min-w-36">
      <span className="md:whitespace-nowrap">
        {number(budget_used_tokens)} <span className="text-muted">of {count(budget_tokens, "token")}</span>
      </span>
      <Meter
        label={`Budget of ${name}`}
        value={budget_used_tokens}
        of={budget_tokens}
        tone={budget_used_tokens * 5 >= budget_tokens * 4 ? "bg-warn" : "bg-accent"}
      />
      {budget_resets_at !== null && (
        <span className="block text-sm text-muted">starts again {ago(budget_resets_at)}</span>
      )}
    </div>
  );
}
