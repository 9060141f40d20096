import { useQuery } from "@tanstack/react-query";
import { Command, useCommandState } from "cmdk";
import { Popover } from "radix-ui";
import { type ComponentProps, type ReactNode, useDeferredValue, useEffect, useRef, useState } from "react";
import { asProblem } from "../api/problem.ts";
import { agentQuery, foundAgentsQuery, type Model, modelsQuery } from "../api/queries.ts";
import { dollars } from "../format.ts";
import { OWN_ZONE } from "../schedule-words.ts";
import { Field } from "./fields.tsx";
import { Icon } from "./icons.tsx";
import { ProblemNotice } from "./problem.tsx";

/** Choices of one agent, model or time zone by a search, with the keyboard too. */

export const ITEM =
  "flex cursor-pointer items-baseline gap-2 rounded-md px-2.5 py-1.5 text-left data-[selected=true]:bg-accent-soft";

/**
 * The field of a search. While a person types, the library names the entry that was chosen before to screen readers, and
 * has a list box without entries, which is none: this corrects both.
 */
export function SearchInput(props: Omit<ComponentProps<typeof Command.Input>, "className" | "ref">) {
  const input = useRef<HTMLInputElement>(null);
  useCommandState(({ search, value, filtered }) => `${search} ${value} ${filtered.count}`);
  useEffect(() => {
    const root = input.current?.closest("[cmdk-root]");
    const chosen = root?.querySelector("[cmdk-item][aria-selected=true]")?.id;
    for (const element of root?.querySelectorAll("[cmdk-input], [cmdk-list]") ?? []) {
      if (chosen === undefined) element.removeAttribute("aria-activedescendant");
      else element.setAttribute("aria-activedescendant", chosen);
    }
    const is_empty = root?.querySelector("[cmdk-item]") === null;
    root?.querySelector("[cmdk-list]")?.setAttribute("role", is_empty ? "group" : "listbox");
  });
  return <Command.Input ref={input} className="control mb-2" {...props} />;
}

interface PickerProps {
  label: string;
  /** The empty text: all of them. */
  value: string;
  onValue: (value: string) => void;
  className?: string | undefined;
  hint?: ReactNode;
  /** The API's name for the field. */
  param?: string;
}

type FrameProps = Pick<PickerProps, "label" | "className" | "hint" | "param"> & {
  chosen: ReactNode;
  children: (close: () => void) => ReactNode;
};
export function Picker({ label, chosen, className = "", hint, param, children }: FrameProps) {
  const [open, setOpen] = useState(false);
  return (
    <Field
      label={label}
      className={className}
      {...(hint !== undefined && { hint })}
      {...(param !== undefined && { param })}
    >
      {(props) => (
        <Popover.Root open={open} onOpenChange={setOpen}>
          <Popover.Trigger {...props} className="control flex items-center justify-between gap-2 text-left">
            <span className="truncate">{chosen}</span>
            <Icon name="down" className="size-3.5 text-muted" />
          </Popover.Trigger>
          <Popover.Content
            align="start"
            sideOffset={4}
            collisionPadding={8}
            aria-label={label}
            className="z-30 w-80 max-w-[calc(100vw-1rem)] rounded-lg border border-line bg-panel p-2 shadow-lg"
          >
            {children(() => setOpen(false))}
          </Popover.Content>
        </Popover.Root>
      )}
    </Field>
  );
}

export function AgentPicker({ label, value, onValue, className }: PickerProps) {
  return (
    <Picker label={label} className={className} chosen={value === "" ? "All" : <AgentName id={value} />}>
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
  return error !== null && asProblem(error).status === 404 ? "Deleted agent" : `Agent …${id.slice(-6)}`;
}

function AgentChoices({ onChoose }: { onChoose: (id: string) => void }) {
  const [text, setText] = useState("");
  const wanted = useDeferredValue(text.trim());
  const found = useQuery({ ...foundAgentsQuery(wanted), placeholderData: (previous) => previous });
  return (
    <Command label="Search agents by name" shouldFilter={false}>
      <SearchInput placeholder="Search by name" value={text} onValueChange={setText} />
      {found.isError && <ProblemNotice error={found.error} onRetry={() => void found.refetch()} />}
      <Command.List className="max-h-72 overflow-y-auto">
        <Command.Item value="" className={ITEM} onSelect={() => onChoose("")}>
          All
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

interface ModelPickerProps extends PickerProps {
  /** The words for no choice; absent: a model must be chosen. */
  none?: string;
  /** The models to choose from; absent: those that an agent can have. */
  models?: readonly Model[];
}

export function ModelPicker({ value, onValue, none, models, ...field }: ModelPickerProps) {
  const chosen = models?.find(({ id }) => id === value);
  return (
    <Picker {...field} chosen={value === "" ? none : chosen === undefined ? value : nameOf(chosen)}>
      {(close) => (
        <ModelChoices
          {...(none !== undefined && { none })}
          {...(models !== undefined && { models })}
          onChoose={(id) => {
            onValue(id);
            close();
          }}
        />
      )}
    </Picker>
  );
}

const nameOf = ({ kind, id, name }: Model) => (kind === "agent" ? name : id);
const perMillion = (rate: number) => dollars(rate * 1_000_000);

interface ModelChoicesProps {
  /** The words for no choice. */
  none?: string;
  /** A model that is left out. */
  without?: string | null;
  models?: readonly Model[];
  onChoose: (id: string) => void;
}
export function ModelChoices({ none, without, models, onChoose }: ModelChoicesProps) {
  const { data: of_agents = [] } = useQuery(modelsQuery);
  return (
    <Command label="Search models by name">
      <SearchInput placeholder="Search by name" />
      <Command.List className="max-h-72 overflow-y-auto">
        <Command.Empty className="px-2.5 py-1.5 text-muted">No models match this name.</Command.Empty>
        {none !== undefined && (
          <Command.Item value={none} className={ITEM} onSelect={() => onChoose("")}>
            {none}
          </Command.Item>
        )}
        {(models ?? of_agents).map(
          (model) =>
            model.id !== without && (
              <Command.Item
                key={model.id}
                value={model.id}
                keywords={[model.name]}
                className={ITEM}
                onSelect={() => onChoose(model.id)}
              >
                <span>
                  <span className="break-all">{nameOf(model)}</span>
                  {model.kind === "chat" && (
                    <span className="block text-sm text-muted">
                      {perMillion(model.input_rate)} in, {perMillion(model.output_rate)} out
                      {model.trial_eligible ? "" : ", not in the trial"}
                    </span>
                  )}
                </span>
              </Command.Item>
            ),
        )}
      </Command.List>
    </Command>
  );
}

/** The time zones, the browser's own first. */
const ZONES = [...new Set([OWN_ZONE, "UTC", ...Intl.supportedValuesOf("timeZone")])];
const zoneText = (zone: string) => zone.replaceAll("_", " ");

/** A time zone by its city. */
export function ZonePicker({ value, onValue, ...field }: Omit<PickerProps, "label">) {
  return (
    <Picker label="Time zone" {...field} chosen={zoneText(value)}>
      {(close) => (
        <Command label="Search time zones by city">
          <SearchInput placeholder="Search by city" />
          <Command.List className="max-h-72 overflow-y-auto">
            <Command.Empty className="px-2.5 py-1.5 text-muted">No time zones match this city.</Command.Empty>
            {ZONES.map((zone) => (
              <Command.Item
                key={zone}
                value={zoneText(zone)}
                className={ITEM}
                onSelect={() => {
                  onValue(zone);
                  close();
                }}
              >
                {zoneText(zone)}
                {zone === OWN_ZONE && <span className="text-sm text-muted">your browser's</span>}
              </Command.Item>
            ))}
          </Command.List>
        </Command>
      )}
    </Picker>
  );
}
