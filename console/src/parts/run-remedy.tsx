import { Link, linkOptions } from "@tanstack/react-router";
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
/** Where a person can mend the failure of a run; null: running again is what is left. */
export function remedyOf({ code, param }: RunError, agent_id: string) {
  if (code === "insufficient_tokens") {
    return { action: "Buy tokens", link: linkOptions({ to: "/billing", search: { top_up: true } }) };
  }
  if (code === "secret_reflected") return { action: "Replace the secret", link: linkOptions({ to: "/vault" }) };
  if (param === "user") {
    return {
      action: "Change the end user's budget",
      link: linkOptions({ to: "/billing", search: { tab: "end_users" } }),
    };
  }
  if (code === "key_revoked" || param === "budget_tokens") {
    return { action: "Open API keys", link: linkOptions({ to: "/developers/keys" }) };
  }
  const known = FIELDS[code];
  if (known === undefined) return null;
  const [field, action] = known;
  const search = { field: param ?? field };
  return { action, link: linkOptions({ to: "/agents/$id/edit", params: { id: agent_id }, search }) };
}

/** A link to the place where a person can mend the failure of a run. */
export function RunRemedy({ error, agent_id }: { error: RunError; agent_id: string }) {
  const remedy = remedyOf(error, agent_id);
  if (remedy === null) return null;
  return (
    <Link {...remedy.link} className={buttonClass("primary", "mt-3")}>
      {remedy.action}
    </Link>
  );
}
