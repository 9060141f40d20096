import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { type Body, call } from "../api/client.ts";
import { type AgentTemplate, profileQuery, stale, templatesQuery } from "../api/queries.ts";
import { words } from "../format.ts";
import { OWN_ZONE } from "../schedule-words.ts";
import { Button, Card } from "../ui/basics.tsx";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { confirmSaved } from "../ui/saved.tsx";

/** Agents to begin with. Without the list, the form below still creates a blank agent. */
export function TemplateChoice() {
  const { data: templates = [] } = useQuery(templatesQuery);
  const [chosen, setChosen] = useState<AgentTemplate | null>(null);
  if (templates.length === 0) return null;
  return (
    <Card title="Begin with a template" note="Or fill in the blank form below." className="mb-4 max-w-3xl">
      <ul className="grid gap-3 sm:grid-cols-2">
        {templates.map((template) => (
          <li key={template.id} className="flex flex-col items-start gap-2 rounded-lg border border-line p-3">
            <h3 className="font-medium">{template.name}</h3>
            <p className="flex-1 text-sm text-muted">{template.description}</p>
            <Button aria-label={`Use ${template.name}`} onClick={() => setChosen(template)}>
              Use
            </Button>
          </li>
        ))}
      </ul>
      {chosen !== null && <TemplateDialog template={chosen} onClose={() => setChosen(null)} />}
    </Card>
  );
}

/** The template's agent with its blanks filled in. */
function fill(value: unknown, blanks: Record<string, string>): unknown {
  if (typeof value === "string") return value.replace(/<([A-Z_]+)>/g, (all, name: string) => blanks[name] ?? all);
  if (Array.isArray(value)) return value.map((each) => fill(each, blanks));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, fill(each, blanks)]));
}

function TemplateDialog({ template, onClose }: { template: AgentTemplate; onClose: () => void }) {
  const navigate = useNavigate();
  const { data: profile } = useQuery(profileQuery);
  const [typed, setTyped] = useState<Record<string, string>>({});
  const usual: Record<string, string | undefined> = { TIMEZONE: OWN_ZONE, MAIL: profile?.email };
  const blanks = Object.fromEntries(template.blanks.map(({ name }) => [name, typed[name] ?? usual[name] ?? ""]));
  const create = useMutation({
    mutationFn: () =>
      call("POST /api/v1/agents", { body: fill(template.agent, blanks) as Body<"POST /api/v1/agents"> }),
    onSuccess: async ({ id }) => {
      await stale("agents");
      confirmSaved("Agent created");
      await navigate({ to: "/agents/$id", params: { id }, search: { tab: "settings" } });
    },
  });
  return (
    <Dialog title={template.name} onClose={onClose}>
      <DialogForm save={create} action="Create agent" onCancel={onClose}>
        {template.blanks.map(({ name, description, example }) => (
          <TextField
            key={name}
            label={words(name.toLowerCase()).replace("url", "address")}
            hint={description}
            placeholder={example}
            required
            value={blanks[name] ?? ""}
            onValue={(text) => setTyped((old) => ({ ...old, [name]: text }))}
          />
        ))}
        <p className="text-sm text-muted">You can change everything else afterwards.</p>
      </DialogForm>
    </Dialog>
  );
}
