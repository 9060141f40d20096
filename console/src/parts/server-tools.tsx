import { useMutation } from "@tanstack/react-query";
import { type Answer, call } from "../api/client.ts";
import { count } from "../format.ts";
import { Badge, Button } from "../ui/basics.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { SelectField } from "../ui/select.tsx";
import { type McpServer, type Policy, withPolicy } from "./draft.ts";
import { POLICIES } from "./policy-field.tsx";

type Listed = Answer<"GET /api/v1/agents/{id}/mcp-servers/{server}/tools">["tools"][number];

const POLICY_NAMES = Object.fromEntries(POLICIES) as Record<Policy, string>;

interface Props {
  /** null: the agent is not saved yet. */
  agent_id: string | null;
  server: McpServer;
  onChange: (changes: Partial<McpServer>) => void;
}

/** The tools of a saved server with the server's own claims. The owner decides which of them ask. */
export function ServerTools({ agent_id, server, onChange }: Props) {
  const { kept } = server;
  const asked = useMutation({
    mutationFn: (to: { id: string; server: string }) =>
      call("GET /api/v1/agents/{id}/mcp-servers/{server}/tools", { params: to }),
  });
  if (agent_id === null || kept === null || kept.url !== server.url) {
    return <p className="text-sm text-muted sm:col-span-2">Save the agent to see the tools of this server.</p>;
  }
  return (
    <div className="space-y-3 sm:col-span-2">
      <Button busy={asked.isPending} onClick={() => asked.mutate({ id: agent_id, server: kept.name })}>
        Show tools
      </Button>
      {asked.error !== null && <ProblemNotice error={asked.error} />}
      {asked.data !== undefined && (
        <>
          <p className="text-sm text-pretty text-muted">
            Choose which tools ask before a call. A server may falsely claim that a tool only reads: check what each one
            does.
            {asked.data.left_out > 0 &&
              ` ${count(asked.data.left_out, "tool is", "tools are")} not listed: unsafe, too large or too many.`}
          </p>
          <ul className="space-y-3">
            {asked.data.tools.map((tool) => (
              <li key={tool.name}>
                <ListedTool tool={tool} server={server} onChange={onChange} />
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

function ListedTool({ tool, server, onChange }: Omit<Props, "agent_id"> & { tool: Listed }) {
  const { name, description, read_only_hint } = tool;
  const claim = {
    true: <Badge tone="accent">The server says: only reads</Badge>,
    false: <Badge tone="warn">The server says: has effects</Badge>,
    null: <Badge>The server says nothing</Badge>,
  }[`${read_only_hint}`];
  const own = server.tool_policies.find((each) => each.tool === name)?.policy;
  return (
    <SelectField
      label={name}
      value={own ?? ""}
      options={[["", `As the server: ${POLICY_NAMES[server.policy].toLowerCase()}`], ...POLICIES]}
      onValue={(policy) => onChange({ tool_policies: withPolicy(server, name, policy === "" ? null : policy) })}
      hint={
        <>
          {claim} <span className="line-clamp-2 wrap-anywhere">{description}</span>
        </>
      }
    />
  );
}
