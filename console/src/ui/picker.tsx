import { useQuery } from "@tanstack/react-query";
import { Command } from "cmdk";
import { Popover } from "radix-ui";
import { type ReactNode, useDeferredValue, useId, useState } from "react";
import { asProblem } from "../api/problem.ts";
import { agentQuery, foundAgentsQuery, modelsQuery } from "../api/queries.ts";
import { Icon } from "./icons.tsx";
import { ProblemNotice } from "./problem.tsx";

/** Choices of one agent or model by a search, with the keyboard too. */

export const ITEM =
  "flex cursor-pointer items-baseline gap-2 rounded-md px-2.5 py-1.5 text-left data-[selected=true]:bg-accent-soft";

interface PickerProps {
  label: string;
  /** The empty text: all of them. */
  value: string;
  onValue: (value: string) => void;
  className?: string;
}

function Picker({
  label,
  chosen,
  className = "",
  children,
}: {
  label: string;
  chosen: ReactNode;
  className?: string | undefined;
  children: (close: () => void) => ReactNode;
}) {
  const id = useId();
  const [open, setOpen] = useState(false);
  return (
    <div className={className}>
      <label htmlFor={id} className="mb-1 block font-medium">
        {label}
      </label>
      <Popover.Root open={open} onOpenChange={setOpen}>
        <Popover.Trigger id={id} className="control flex items-center justify-between gap-2 text-left">
          <span className="truncate">{chosen}</span>
          <Icon name="down" className="size-3.5 text-muted" />
        </Popover.Trigger>
        <Popover.Content
          align="start"
          sideOffset={4}
          collisionPadding={8}
          aria-label={label}
          className="z-30 w-72 max-w-[calc(100vw-1rem)] rounded-lg border border-line bg-panel p-2 shadow-lg"
        >
          {children(() => setOpen(false))}
        </Popover.Content>
      </Popover.Root>
    </div>
  );
}

export function AgentPicker({ label, value, onValue, className }: PickerProps) {
  return (
    <Picker label={label} className={className} chosen={value === "" ? "all" : <AgentName id={value} />}>
      {(close) => (
        <AgentChoices
          onChoose={(id) => {
            onValue(id);
            close();
          }}
        />
      )}
    </Picker>
  );
}

function AgentName({ id }: { id: string }) {
  const { data, error } = useQuery(agentQuery(id));
  if (data !== undefined) return data.name;
  return error !== null && asProblem(error).status === 404 ? "deleted agent" : `agent …${id.slice(-6)}`;
}

function AgentChoices({ onChoose }: { onChoose: (id: string) => void }) {
  const [text, setText] = useState("");
  const wanted = useDeferredValue(text.trim());
  const found = useQuery({ ...foundAgentsQuery(wanted), placeholderData: (previous) => previous });
  return (
    <Command label="Search agents by name" shouldFilter={false}>
      <Command.Input placeholder="Search by name" className="control mb-1.5" value={text} onValueChange={setText} />
      {found.isError && <ProblemNotice error={found.error} onRetry={() => void found.refetch()} />}
      <Command.List className="max-h-72 overflow-y-auto">
        <Command.Item value="" className={ITEM} onSelect={() => onChoose("")}>
          all
        </Command.Item>
        {found.data?.agents.map(({ id, name }) => (
          <Command.Item key={id} value={id} className={ITEM} onSelect={() => onChoose(id)}>
            <span className="truncate">{name}</span>
          </Command.Item>
        ))}
      </Command.List>
      {found.data?.agents.length === 0 && <p className="px-2.5 py-1.5 text-muted">No agents match this name.</p>}
      {found.data?.next_cursor != null && (
        <p className="px-2.5 pt-1.5 text-sm text-muted">There are more agents. Type a part of the name.</p>
      )}
    </Command>
  );
}

/** `none`: the words for no choice. */
export function ModelPicker({ label, value, onValue, className, none }: PickerProps & { none: string }) {
  return (
    <Picker label={label} className={className} chosen={value === "" ? none : value}>
      {(close) => (
        <ModelChoices
          none={none}
          onChoose={(id) => {
            onValue(id);
            close();
          }}
        />
      )}
    </Picker>
  );
}

interface ModelChoicesProps {
  /** The words for no choice. */
  none?: string;
  /** A model that is left out. */
  without?: string | null;
  onChoose: (id: string) => void;
}
export function ModelChoices({ none, without, onChoose }: ModelChoicesProps) {
  const { data: models = [] } = useQuery(modelsQuery);
  return (
    <Command label="Search models by name">
      <Command.Input placeholder="Search by name" className="control mb-1.5" />
      <Command.List className="max-h-72 overflow-y-auto">
        <Command.Empty className="px-2.5 py-1.5 text-muted">No models match this name.</Command.Empty>
        {none !== undefined && (
          <Command.Item value={none} className={ITEM} onSelect={() => onChoose("")}>
            {none}
          </Command.Item>
        )}
        {models.map(
          ({ id }) =>
            id !== without && (
              <Command.Item key={id} value={id} className={ITEM} onSelect={() => onChoose(id)}>
                <span className="break-all">{id}</span>
              </Command.Item>
            ),
        )}
      </Command.List>
    </Command>
  );
}
