import { useMutation } from "@tanstack/react-query";
import { type Answer, call } from "../api/client.ts";
import { count, toList } from "../format.ts";
import { Badge, Button } from "../ui/basics.tsx";
import { Toggle } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { isReading, type McpServer, withReading } from "./draft.ts";

type Listed = Answer<"GET /api/v1/agents/{id}/mcp-servers/{server}/tools">["tools"][number];

interface Props {
  /** null: the agent is not saved yet. */
  agent_id: string | null;
  server: McpServer;
  onChange: (changes: Partial<McpServer>) => void;
}

/** The tools of a saved server with the server's own claims. The owner decides which of them only read. */
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
            Turn on the tools that only read. A server may claim this falsely: check what each tool does.
            {asked.data.left_out > 0 &&
              ` ${count(asked.data.left_out, "tool is", "tools are")} not listed: unsafe, too large or too many.`}
          </p>
          <ul className="space-y-3">
            {asked.data.tools.map((tool) => (
              <li key={tool.name}>
                <ToolEffect tool={tool} server={server} onChange={onChange} />
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

function ToolEffect({ tool, server, onChange }: Omit<Props, "agent_id"> & { tool: Listed }) {
  const { name, description, read_only_hint } = tool;
  const claim = {
    true: <Badge tone="accent">The server says: only reads</Badge>,
    false: <Badge tone="warn">The server says: has effects</Badge>,
    null: <Badge>The server says nothing</Badge>,
  }[`${read_only_hint}`];
  return (
    <Toggle
      label={name}
      checked={isReading(server, name)}
      // The lists of names are separated by commas and spaces.
      disabled={toList(name).join() !== name}
      onChecked={(reads) => onChange(withReading(server, name, reads))}
      hint={
        <>
          {claim} <span className="line-clamp-2 wrap-anywhere">{description}</span>
        </>
      }
    />
  );
}
