import { useQuery } from "@tanstack/react-query";
import { Popover } from "radix-ui";
import { useDeferredValue, useId, useState } from "react";
import { asProblem } from "../api/problem.ts";
import { agentQuery, foundAgentsQuery } from "../api/queries.ts";
import { Icon } from "./icons.tsx";
import { ProblemNotice } from "./problem.tsx";

interface AgentPickerProps {
  label: string;
  /** The empty text: all agents. */
  value: string;
  onValue: (id: string) => void;
  className?: string;
}

/** Chooses one agent by a search, however many there are. */
export function AgentPicker({ label, value, onValue, className = "" }: AgentPickerProps) {
  const id = useId();
  const [open, setOpen] = useState(false);
  const choose = (chosen: string) => {
    onValue(chosen);
    setOpen(false);
  };
  return (
    <div className={className}>
      <label htmlFor={id} className="mb-1 block font-medium">
        {label}
      </label>
      <Popover.Root open={open} onOpenChange={setOpen}>
        <Popover.Trigger id={id} className="control flex items-center justify-between gap-2 text-left">
          <span className="truncate">{value === "" ? "all" : <ChosenName id={value} />}</span>
          <Icon name="down" className="size-3.5 text-muted" />
        </Popover.Trigger>
        <Popover.Content
          align="start"
          sideOffset={4}
          collisionPadding={8}
          aria-label={label}
          className="z-30 w-72 max-w-[calc(100vw-1rem)] rounded-lg border border-line bg-panel p-2 shadow-lg"
        >
          <Search onChoose={choose} />
        </Popover.Content>
      </Popover.Root>
    </div>
  );
}

function ChosenName({ id }: { id: string }) {
  const { data, error } = useQuery(agentQuery(id));
  if (data !== undefined) return data.name;
  return error !== null && asProblem(error).status === 404 ? "deleted agent" : `agent …${id.slice(-6)}`;
}

const CHOICE = "block w-full truncate rounded-md px-2.5 py-1.5 text-left hover:bg-accent-soft";

function Search({ onChoose }: { onChoose: (id: string) => void }) {
  const [text, setText] = useState("");
  const wanted = useDeferredValue(text.trim());
  const found = useQuery({ ...foundAgentsQuery(wanted), placeholderData: (previous) => previous });
  return (
    <>
      <input
        type="search"
        aria-label="Search agents by name"
        placeholder="Search by name"
        className="control mb-1.5"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      {found.isError && <ProblemNotice error={found.error} onRetry={() => void found.refetch()} />}
      <ul className="max-h-72 overflow-y-auto">
        <li>
          <button type="button" className={CHOICE} onClick={() => onChoose("")}>
            all
          </button>
        </li>
        {found.data?.agents.map(({ id, name }) => (
          <li key={id}>
            <button type="button" className={CHOICE} onClick={() => onChoose(id)}>
              {name}
            </button>
          </li>
        ))}
      </ul>
      {found.data?.agents.length === 0 && <p className="px-2.5 py-1.5 text-muted">No agents match this name.</p>}
      {found.data?.next_cursor != null && (
        <p className="px-2.5 pt-1.5 text-sm text-muted">There are more agents. Type a part of the name.</p>
      )}
    </>
  );
}
