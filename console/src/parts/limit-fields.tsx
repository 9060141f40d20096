import { AGENT_LIMITS } from "../../../src/constants.ts";
import { Card } from "../ui/basics.tsx";
import { TextField } from "../ui/fields.tsx";
import type { Draft, LimitName } from "./draft.ts";

const LIMITS: [LimitName, string, string][] = [
  ["max_cost_tokens_per_run", "Tokens a run", "no cap"],
  ["max_cost_tokens_per_month", "Tokens a month", "no cap"],
  ["max_steps", "Steps a run", String(AGENT_LIMITS.max_steps)],
  ["max_run_seconds", "Seconds a run", String(AGENT_LIMITS.max_run_seconds)],
  [
    "max_consecutive_failures",
    "Failures in a row before its schedule pauses",
    String(AGENT_LIMITS.max_consecutive_failures),
  ],
];

/** Hard caps: a call that could pass one is not made. */
export function LimitFields({ draft, change }: { draft: Draft; change: (changes: Partial<Draft>) => void }) {
  return (
    <Card title="Limits" note="Hard caps: a call that could pass one is not made.">
      <div className="grid items-end gap-4 sm:grid-cols-2">
        {LIMITS.map(([name, label, usual]) => (
          <TextField
            key={name}
            label={label}
            param={`limits.${name}`}
            type="number"
            min={1}
            inputMode="numeric"
            placeholder={usual}
            value={draft.limits[name]}
            onValue={(value) => change({ limits: { ...draft.limits, [name]: value } })}
          />
        ))}
      </div>
    </Card>
  );
}
