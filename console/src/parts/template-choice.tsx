import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type AgentTemplate, profileQuery, sessionQuery, templatesQuery } from "../api/queries.ts";
import { words } from "../format.ts";
import { OWN_ZONE } from "../schedule-words.ts";
import { Button, Callout, Card } from "../ui/basics.tsx";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { ZonePicker } from "../ui/picker.tsx";
import { type Draft, newAgentDraft } from "./draft.ts";

type AgentBody = Parameters<typeof newAgentDraft>[0];

interface Props {
  onChosen: (template: AgentTemplate, draft: Draft) => void;
}

/** Agents to begin with. Without the list, the form below still creates a blank agent. */
export function TemplateChoice({ onChosen }: Props) {
  const { data: templates = [] } = useQuery(templatesQuery);
  const { data: session } = useQuery(sessionQuery);
  const [chosen, setChosen] = useState<AgentTemplate | null>(null);
  if (templates.length === 0) return null;
  const lacksMail = ({ blanks }: AgentTemplate) =>
    session?.delivery === "log" && blanks.some(({ name }) => name === "MAIL");
  return (
    <Card title="Begin with a template" note="Or fill in the blank form below." className="mb-4 max-w-3xl">
      <ul className="grid gap-3 sm:grid-cols-2">
        {templates.map((template) => (
          <li key={template.id} className="flex flex-col items-start gap-2 rounded-lg border border-line p-3">
            <h3 className="font-medium">{template.name}</h3>
            <p className="text-sm text-muted">{template.description}</p>
            {lacksMail(template) && <p className="text-sm text-warn">{NO_MAIL}</p>}
            <Button aria-label={`Use ${template.name}`} className="mt-auto" onClick={() => setChosen(template)}>
              Use
            </Button>
          </li>
        ))}
      </ul>
      {chosen !== null && (
        <TemplateDialog
          template={chosen}
          without_mail={lacksMail(chosen)}
          onChosen={onChosen}
          onClose={() => setChosen(null)}
        />
      )}
    </Card>
  );
}

const NO_MAIL = "This service sends no e-mail. The agent begins without that delivery: you read its results here.";

/** The template's agent with its blanks filled in. */
function fill(value: unknown, blanks: Record<string, string>): unknown {
  if (typeof value === "string") return value.replace(/<([A-Z_]+)>/g, (all, name: string) => blanks[name] ?? all);
  if (Array.isArray(value)) return value.map((each) => fill(each, blanks));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, fill(each, blanks)]));
}

const isMail = ({ to }: { to: string }) => to.startsWith("mailto:");

interface DialogProps extends Props {
  template: AgentTemplate;
  without_mail: boolean;
  onClose: () => void;
}
function TemplateDialog({ template, without_mail, onChosen, onClose }: DialogProps) {
  const { data: profile } = useQuery(profileQuery);
  const [typed, setTyped] = useState<Record<string, string>>({});
  const usual: Record<string, string | undefined> = {
    TIMEZONE: OWN_ZONE,
    MAIL: profile?.email,
    PAGE_HOST: URL.parse(typed.PAGE_URL ?? "")?.hostname,
  };
  const blanks = Object.fromEntries(template.blanks.map(({ name }) => [name, typed[name] ?? usual[name] ?? ""]));
  const use = useMutation({
    mutationFn: async () => {
      const agent = fill(template.agent, blanks) as AgentBody;
      const { deliveries = [] } = agent;
      return newAgentDraft({ ...agent, deliveries: deliveries.filter((each) => !without_mail || !isMail(each)) });
    },
    onSuccess: (draft) => onChosen(template, draft),
  });
  const set = (name: string) => (text: string) => setTyped((old) => ({ ...old, [name]: text }));
  const shown = template.blanks.filter(({ name }) => !without_mail || name !== "MAIL");
  return (
    <Dialog title={template.name} onClose={onClose}>
      <DialogForm save={use} action="Use template" onCancel={onClose}>
        {without_mail && (
          <Callout tone="warn" icon="warning">
            {NO_MAIL}
          </Callout>
        )}
        {shown.map(({ name, description, example }) =>
          name === "TIMEZONE" ? (
            <ZonePicker key={name} value={blanks[name] ?? ""} onValue={set(name)} />
          ) : (
            <TextField
              key={name}
              label={words(name.toLowerCase()).replace("url", "address")}
              hint={description}
              placeholder={example}
              required
              value={blanks[name] ?? ""}
              onValue={set(name)}
            />
          ),
        )}
        <p className="text-sm text-muted">
          This fills in the form, except what you have typed there. You can change everything before you create the
          agent.
        </p>
      </DialogForm>
    </Dialog>
  );
}
