import { Link } from "@tanstack/react-router";
import type { RunDetail } from "../api/queries.ts";
import { buttonClass } from "../ui/basics.tsx";

type RunError = NonNullable<RunDetail["error"]>;

/** What mends a failure: a field of the agent's editor, by the API's name for it. */
const FIELDS: Readonly<Record<string, [field: string, action: string]>> = {
  timeout: ["limits.max_run_seconds", "Raise “Seconds per run”"],
  max_steps: ["limits.max_steps", "Raise “Steps per run”"],
  budget_exceeded: ["limits.max_cost_tokens_per_run", "Raise the token limit"],
  model_unavailable: ["model_id", "Choose another model"],
  tool_failed: ["tools_config", "Change the tools"],
  unsafe_content: ["tools_config", "Change the tools"],
  egress_refused: ["tools_config", "Change the tools"],
  output_invalid: ["output_schema", "Change the output's schema"],
};
/** A link to the place where a person can mend the failure of a run. */
export function RunRemedy({ error: { code, param }, agent_id }: { error: RunError; agent_id: string }) {
  const button = buttonClass("primary", "mt-3");
  if (code === "insufficient_tokens") {
    return (
      <Link to="/billing" search={{ top_up: true }} className={button}>
        Buy tokens
      </Link>
    );
  }
  if (code === "secret_reflected") {
    return (
      <Link to="/vault" className={button}>
        Replace the secret
      </Link>
    );
  }
  if (param === "user") {
    return (
      <Link to="/billing" search={{ tab: "end_users" }} className={button}>
        Change the end user's budget
      </Link>
    );
  }
  if (code === "key_revoked" || param === "budget_tokens") {
    return (
      <Link to="/developers/keys" className={button}>
        Open API keys
      </Link>
    );
  }
  const known = FIELDS[code];
  if (known === undefined) return null;
  const [field, action] = known;
  return (
    <Link to="/agents/$id/edit" params={{ id: agent_id }} search={{ field: param ?? field }} className={button}>
      {action}
    </Link>
  );
}
