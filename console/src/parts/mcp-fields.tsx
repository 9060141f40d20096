import { Button } from "../ui/basics.tsx";
import { fieldsOf, TextField } from "../ui/fields.tsx";
import { type McpServer, NO_SECRET_USE, NO_SERVER, type ToolPolicy } from "./draft.ts";
import { PolicyField } from "./policy-field.tsx";
import { SecretUseFields } from "./secret-use-fields.tsx";
import { ServerTools } from "./server-tools.tsx";

/** Another server at the same place begins without the tools of the one before. */
const keptAs = ({ kept }: McpServer) => `${kept?.name} ${kept?.url}`;

interface McpFieldsProps {
  agent_id: string | null;
  servers: McpServer[];
  onServers: (servers: McpServer[]) => void;
}

/** The MCP servers of an agent. */
export function McpFields({ agent_id, servers, onServers }: McpFieldsProps) {
  return (
    <div className="space-y-4">
      {servers.map((server, place) => (
        <ServerFields
          // biome-ignore lint/suspicious/noArrayIndexKey: the entries have no id
          key={place}
          agent_id={agent_id}
          place={place}
          server={server}
          onChange={(changes) => onServers(servers.with(place, { ...server, ...changes }))}
          onRemove={() => onServers(servers.toSpliced(place, 1))}
        />
      ))}
      <Button icon="plus" onClick={() => onServers([...servers, NO_SERVER])}>
        Add server
      </Button>
    </div>
  );
}

interface ServerProps {
  agent_id: string | null;
  place: number;
  server: McpServer;
  onChange: (changes: Partial<McpServer>) => void;
  onRemove: () => void;
}
function ServerFields({ agent_id, place, server, onChange, onRemove }: ServerProps) {
  const param = `tools_config.mcp.servers[${place}]`;
  const field = fieldsOf(server, onChange);
  return (
    <fieldset className="grid items-start gap-3 rounded-lg border border-line p-3 sm:grid-cols-2">
      <legend className="px-1 text-sm text-muted">Server {place + 1}</legend>
      <TextField
        label="Name"
        {...field("name", `${param}.name`)}
        required
        placeholder="calendar"
        hint="Tool names begin with it, such as calendar__list."
      />
      <TextField
        label="Address"
        {...field("url", `${param}.url`)}
        type="url"
        required
        placeholder="https://mcp.example.com/mcp"
      />
      <TextField label="Only these tools" {...field("tools", `${param}.tools`)} placeholder="all tools" />
      <TextField
        label="Seconds for one call"
        {...field("timeout_seconds", `${param}.timeout_seconds`)}
        type="number"
        min={1}
        max={600}
        placeholder="60"
        hint="Begins again when the server reports progress."
      />
      <div className="sm:col-span-2">
        <PolicyField
          {...field("policy", `${param}.permission_policy`)}
          hint="Outside content, such as a web page or a tool's answer, can ask for calls that you do not want."
        />
      </div>
      <ToolPolicies param={param} server={server} onChange={onChange} />
      <ServerTools key={keptAs(server)} agent_id={agent_id} server={server} onChange={onChange} />
      {server.auth !== null && (
        <div className="sm:col-span-2">
          <SecretUseFields
            param={`${param}.auth`}
            use={server.auth}
            own_host="the server's host"
            methods="all"
            onChange={(auth) => onChange({ auth })}
            onRemove={() => onChange({ auth: null })}
          />
        </div>
      )}
      <div className="flex flex-wrap gap-2 sm:col-span-2">
        {server.auth === null && (
          <Button icon="plus" onClick={() => onChange({ auth: NO_SECRET_USE })}>
            Add secret
          </Button>
        )}
        <Button kind="quiet" icon="trash" onClick={onRemove}>
          Remove server
        </Button>
      </div>
    </fieldset>
  );
}

/** Tools that differ from their server. */
function ToolPolicies({ param, server, onChange }: Pick<ServerProps, "server" | "onChange"> & { param: string }) {
  const { tool_policies } = server;
  const change = (place: number, changes: Partial<ToolPolicy>) => {
    const changed = tool_policies.map((each, at) => (at === place ? { ...each, ...changes } : each));
    onChange({ tool_policies: changed });
  };
  return (
    <div className="space-y-3 sm:col-span-2">
      {tool_policies.map(({ tool, policy }, place) => (
        <div
          // biome-ignore lint/suspicious/noArrayIndexKey: the entries have no id
          key={place}
          className="grid items-start gap-x-3 gap-y-2 sm:grid-cols-[1fr_1fr_auto]"
        >
          <TextField
            label="Tool"
            param={`${param}.tool_permission_policies.${tool}`}
            required
            value={tool}
            onValue={(tool) => change(place, { tool })}
            placeholder="create_contact"
          />
          <PolicyField value={policy} onValue={(policy) => change(place, { policy })} />
          <Button
            kind="quiet"
            icon="trash"
            className="sm:mt-6"
            aria-label={`Remove the exception for ${tool === "" ? "a tool" : tool}`}
            onClick={() => onChange({ tool_policies: tool_policies.toSpliced(place, 1) })}
          />
        </div>
      ))}
      <Button
        icon="plus"
        onClick={() => onChange({ tool_policies: [...tool_policies, { tool: "", policy: "always_ask" }] })}
      >
        Add exception for a tool
      </Button>
    </div>
  );
}
