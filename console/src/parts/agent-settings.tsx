import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { call } from "../api/client.ts";
import type { Agent } from "../api/queries.ts";
import { ago, capital, count, number } from "../format.ts";
import { Button, Card, Facts } from "../ui/basics.tsx";
import { Copyable } from "../ui/copy.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { draftOf, type Policy } from "./draft.ts";

const ASKS: Record<Policy, string> = {
  always_allow: "never asks",
  ask_after_untrusted: "asks after outside content was read",
  always_ask: "always asks",
};
/** Web pages and webhooks ask only if their owner wants it. */
const asks = (policy: Policy) => (policy === "always_allow" ? "" : ` (${ASKS[policy]})`);

/** Each enabled tool in one line. A tool without a sentence of its own is named. */
function toolsInWords(agent: Agent): string[] {
  const { web_fetch, send_webhook, mcp, ...others } = agent.tools_config;
  const tools = Object.entries(others).flatMap(([name, settings]) => (isEnabled(settings) ? [name] : []));
  const { fetch_policy, webhook_policy, mcp_servers } = draftOf(agent);
  if (web_fetch?.enabled === true)
    tools.push(`reads ${web_fetch.hosts?.join(", ") ?? "any public site"}${asks(fetch_policy)}`);
  if (send_webhook?.enabled === true)
    tools.push(`sends webhooks to ${send_webhook.urls?.join(", ") || "no address"}${asks(webhook_policy)}`);
  for (const server of mcp?.enabled === true ? mcp_servers : []) {
    const own = server.tool_policies.map(({ tool, policy }) => `; ${tool} ${ASKS[policy]}`);
    const offered = server.tools === "" ? "all tools" : server.tools;
    tools.push(`uses ${offered} of ${server.name} (${ASKS[server.policy]}${own.join("")})`);
  }
  return tools;
}

function settingsInWords(settings: Agent["model_settings"]): string {
  const { temperature, top_p, reasoning_effort, max_output_tokens } = settings;
  const set = [
    reasoning_effort === null ? [] : `${reasoning_effort} reasoning effort`,
    temperature === null ? [] : `temperature ${temperature}`,
    top_p === null ? [] : `top p ${top_p}`,
    max_output_tokens === null ? [] : `at most ${count(max_output_tokens, "output token")} a call`,
  ].flat();
  return set.length === 0 ? "The model's defaults" : capital(set.join(", "));
}

function isEnabled(settings: unknown): boolean {
  return (settings as { enabled?: boolean } | undefined)?.enabled === true;
}

/** An agent's configuration. */
export function AgentSettings({ agent }: { agent: Agent }) {
  const tools = toolsInWords(agent);
  const { limits } = agent;
  const { send_webhook } = agent.tools_config;
  const cap = (tokens: number | null) => (tokens === null ? "No limit" : count(tokens, "token"));
  return (
    <div className="grid items-start gap-4 lg:grid-cols-2">
      <div className="min-w-0 space-y-4">
        <Card title="What it does">
          <h3 className="text-sm text-muted">Instructions</h3>
          <p dir="auto" className="mb-4 wrap-anywhere whitespace-pre-wrap">
            {agent.system_prompt ?? "—"}
          </p>
          <h3 className="text-sm text-muted">Task of each run</h3>
          <p dir="auto" className="wrap-anywhere whitespace-pre-wrap">
            {agent.run_prompt ?? "—"}
          </p>
        </Card>
        {send_webhook?.enabled === true && send_webhook.secret === undefined && <WebhookKey id={agent.id} />}
      </div>
      <Card title="Settings">
        <Facts
          facts={[
            ["Model", agent.auto_route ? "Chosen for each run" : agent.model_id],
            ["Model settings", settingsInWords(agent.model_settings)],
            [
              "Tools",
              tools.length === 0 ? (
                "None"
              ) : (
                <ul key="tools">
                  {tools.map((tool) => (
                    <li key={tool} className="wrap-anywhere">
                      {capital(tool)}
                    </li>
                  ))}
                </ul>
              ),
            ],
            [
              "Secrets",
              agent.secrets_used.length === 0 ? (
                "None"
              ) : (
                <Link key="secrets" to="/vault" className="link">
                  {agent.secrets_used.join(", ")}
                </Link>
              ),
            ],
            [
              "Results go to",
              agent.deliveries.length === 0 ? (
                "Nowhere else"
              ) : (
                <ul key="deliveries">
                  {agent.deliveries.map(({ to, on, unless }) => (
                    <li key={`${to} ${on} ${unless}`} className="wrap-anywhere">
                      {to.replace(/^mailto:/, "")}, if a run has {on.join(" or ")}
                      {unless === "unchanged" && ", unless unchanged"}
                    </li>
                  ))}
                </ul>
              ),
            ],
            ["Waits for a decision", `At most ${count(agent.approval_hours, "hour")}`],
            ["Steps per run", number(limits.max_steps)],
            ["Time per run", count(limits.max_run_seconds, "second")],
            ["Cost per run", cap(limits.max_cost_tokens_per_run)],
            ["Cost per month", cap(limits.max_cost_tokens_per_month)],
            ["Without tokens", agent.on_budget === "ask" ? "A run waits and asks" : "A run fails"],
            ["Pauses after", count(limits.max_consecutive_failures, "failure in a row", "failures in a row")],
            ["Version", `${agent.version}, changed ${ago(agent.updated_at)}`],
            [
              "Id",
              <code key="id" className="text-sm break-all">
                {agent.id}
              </code>,
            ],
          ]}
        />
      </Card>
    </div>
  );
}

/** The key for the receivers of the agent's webhooks. It loads only on request. */
function WebhookKey({ id }: { id: string }) {
  const show = useMutation({ mutationFn: () => call("GET /api/v1/agents/{id}/webhook-key", { params: { id } }) });
  return (
    <Card
      title="Webhook signature"
      note="The agent signs its webhooks with this key. Receivers check it by Standard Webhooks."
    >
      {show.error !== null && <ProblemNotice error={show.error} />}
      {show.data === undefined ? (
        <Button busy={show.isPending} onClick={() => show.mutate()}>
          Show key
        </Button>
      ) : (
        <Copyable label="Webhook key" text={show.data.key} />
      )}
    </Card>
  );
}
