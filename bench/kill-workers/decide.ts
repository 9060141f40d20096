import { setTimeout } from "node:timers/promises";
import type { RequiredAction } from "../../src/api/contract/run-actions.ts";
import type { RunRecord } from "../../src/api/contract/runs.ts";
import type { BenchService, BenchUser } from "../support/service.ts";
import type { Asked, LoadedAgent } from "./load.ts";
import type { Nodes } from "./nodes.ts";

/** What a person sends to an action. */
export interface Decision {
  decision: "approve" | "edit" | "reject";
  arguments?: Record<string, unknown>;
  reason?: string;
}

/** A decision and when it was first sent. */
export interface SentDecision extends Decision {
  run_id: string;
  type: RequiredAction["type"];
  /** What the action showed. */
  shown: unknown;
  sent_ms: number;
  /** False: the connection broke, and no later answer said that it is decided. */
  is_answered: boolean;
}

const POLL_MS = 150;

/** A key for each user, by the user's id, that may decide what runs ask. */
export async function makeApprovers(
  service: BenchService,
  users: readonly BenchUser[],
): Promise<ReadonlyMap<string, string>> {
  const body = { name: "Approver", scopes: ["agents:read", "agents:approve"], reason: "the harness decides" };
  const made = users.map(async ({ id }): Promise<[string, string]> => {
    const { key } = await service.call<{ key: string }>("POST", `/api/v1/admin/users/${id}/api-keys`, { body });
    return [id, key];
  });
  return new Map(await Promise.all(made));
}

/**
 * A person who decides everything that the runs of these agents ask, as each agent's `decision` says, until `stop`. Calls are
 * repeated while the API is down.
 */
export function startPerson(
  nodes: Nodes,
  agents: readonly LoadedAgent[],
  { asked, approvers }: { asked: Asked; approvers: ReadonlyMap<string, string> },
): { stop(): Promise<void> } {
  const by_id = new Map(agents.map((agent) => [agent.id, agent]));
  let is_stopped = false;
  const work = async () => {
    while (!is_stopped) {
      for (const key of approvers.values()) {
        for (const run of await listWaiting(nodes, key)) {
          const agent = by_id.get(run.agent_id);
          if (agent === undefined) continue;
          for (const action of run.required_actions) await decide(nodes, { agent, run, action, key }, asked);
        }
      }
      await setTimeout(POLL_MS);
    }
  };
  const ended = work();
  return {
    async stop() {
      is_stopped = true;
      await ended;
    },
  };
}

async function listWaiting(nodes: Nodes, key: string): Promise<RunRecord[]> {
  try {
    const path = "/api/v1/runs?status=requires_action&limit=100";
    return (await nodes.api()?.call<{ runs: RunRecord[] }>("GET", path, { key }))?.runs ?? [];
  } catch {
    return []; // the API was killed
  }
}

async function decide(
  nodes: Nodes,
  { agent, run, action, key }: { agent: LoadedAgent; run: RunRecord; action: RequiredAction; key: string },
  asked: Asked,
): Promise<void> {
  const service = nodes.api();
  if (service === null) return;
  const decision = decisionOn(agent, action);
  const sent = asked.decided.get(action.id) ?? {
    ...decision,
    run_id: run.id,
    type: action.type,
    shown: action.arguments,
    sent_ms: performance.now(),
    is_answered: false,
  };
  const was_answered = sent.is_answered;
  const is_repeated = asked.decided.has(action.id);
  asked.decided.set(action.id, sent);
  try {
    const response = await fetch(`${service.url}/api/v1/agents/${agent.id}/runs/${run.id}/actions/${action.id}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(decision),
    });
    const said = await response.text();
    sent.is_answered = response.status === 200 || response.status === 409;
    if (response.status === 200 && !was_answered) return;
    if (response.status === 409 && is_repeated) return; // the answer to an earlier try was lost
    asked.surprises.push(`a decision on ${action.id} of ${agent.label} was answered ${response.status} ${said}`);
  } catch {
    // The API was killed: the action is decided again if it is still open.
  }
}

function decisionOn(agent: LoadedAgent, { type, arguments: shown }: RequiredAction): Decision {
  if (type === "budget") return { decision: "approve" };
  const { decision, label } = agent;
  switch (decision) {
    case "edit":
      return { decision, arguments: editedArguments(shown, label) };
    case "reject":
      return { decision, reason: rejectionReason(agent) };
    default:
      // Also of a call that should not have asked, which the checks report.
      return { decision: "approve", arguments: shown as Record<string, unknown> };
  }
}

/** The person's reason, which the rejected call's step must have. */
export function rejectionReason({ label }: LoadedAgent): string {
  return `${label} is not to be sent.`;
}

/** The arguments with which the call is made instead. */
function editedArguments(shown: unknown, label: string): Record<string, unknown> {
  const { payload, ...others } = shown as { payload?: object };
  return payload === undefined ? { ...others, edited: label } : { ...others, payload: { ...payload, edited: label } };
}
