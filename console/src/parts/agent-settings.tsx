import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { call } from "../api/client.ts";
import type { Agent } from "../api/queries.ts";
import { ago, count, number } from "../format.ts";
import { useAct } from "../ui/act.ts";
import { Button, Card, Facts } from "../ui/basics.tsx";
import { Copyable } from "../ui/copy.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

/** What each tool that is on may do, in a line. */
function toolsInWords({ web_fetch, send_webhook, mcp }: Agent["tools_config"]): string[] {
  const tools: string[] = [];
  if (web_fetch?.enabled === true) tools.push(`reads ${web_fetch.hosts?.join(", ") ?? "any public site"}`);
  if (send_webhook?.enabled === true) tools.push(`sends webhooks to ${send_webhook.urls?.join(", ")}`);
  for (const { name, tools: offered, effects } of mcp?.enabled === true ? (mcp.servers ?? []) : []) {
    tools.push(`uses ${offered?.join(", ") ?? "all tools"} of ${name}${effects === "none" ? ", which only read" : ""}`);
  }
  return tools;
}

/** What an agent is, to read. */
export function AgentSettings({ agent }: { agent: Agent }) {
  const tools = toolsInWords(agent.tools_config);
  const { limits } = agent;
  const { send_webhook } = agent.tools_config;
  const cap = (tokens: number | null) => (tokens === null ? "no cap" : count(tokens, "token"));
  return (
    <div className="grid items-start gap-4 lg:grid-cols-2">
      <div className="min-w-0 space-y-4">
        <Card title="Instructions">
          <h3 className="text-sm text-muted">Who it is</h3>
          <p className="mb-4 break-words whitespace-pre-wrap">{agent.system_prompt ?? "—"}</p>
          <h3 className="text-sm text-muted">What it does on each run</h3>
          <p className="break-words whitespace-pre-wrap">{agent.run_prompt ?? "—"}</p>
        </Card>
        {send_webhook?.enabled === true && send_webhook.secret === undefined && <WebhookKey id={agent.id} />}
      </div>
      <Card title="Set-up">
        <Facts
          facts={[
            ["Model", agent.auto_route ? "chosen for each run" : agent.model_id],
            [
              "Tools",
              tools.length === 0 ? (
                "none"
              ) : (
                <ul key="tools">
                  {tools.map((tool) => (
                    <li key={tool} className="break-words">
                      {tool}
                    </li>
                  ))}
                </ul>
              ),
            ],
            [
              "Secrets",
              agent.secrets_used.length === 0 ? (
                "none"
              ) : (
                <Link key="secrets" to="/secrets" className="link">
                  {agent.secrets_used.join(", ")}
                </Link>
              ),
            ],
            ["Steps a run", number(limits.max_steps)],
            ["Time a run", count(limits.max_run_seconds, "second")],
            ["Cost a run", cap(limits.max_cost_tokens_per_run)],
            ["Cost a month", cap(limits.max_cost_tokens_per_month)],
            ["Paused after", count(limits.max_consecutive_failures, "failure in a row", "failures in a row")],
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

/** For the receivers of the agent's webhooks. Fetched only when it is asked for. */
function WebhookKey({ id }: { id: string }) {
  const [key, setKey] = useState<string | null>(null);
  const { act, busy, error } = useAct();
  const show = () =>
    act(async () => setKey((await call("GET /api/v1/agents/{id}/webhook-key", { params: { id } })).key));
  return (
    <Card title="Its webhooks are signed" note="With a key of this agent: a receiver checks it, by Standard Webhooks.">
      {error !== null && <ProblemNotice error={error} />}
      {key === null ? (
        <Button busy={busy} onClick={show}>
          Show the key
        </Button>
      ) : (
        <Copyable label="Webhook key" text={key} />
      )}
    </Card>
  );
}
