import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { type Body, call } from "../api/client.ts";
import { rememberKey } from "../api/new-key.ts";
import { type ApiKey, stale } from "../api/queries.ts";
import { changedFields, dayForInput, toList } from "../format.ts";
import { Button } from "../ui/basics.tsx";
import { ShownOnce } from "../ui/copy.tsx";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { LAST_DAY, TextField, Toggle } from "../ui/fields.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { Select, SelectField } from "../ui/select.tsx";
import { type BudgetDraft, BudgetFields, budgetDraftOf, budgetOf } from "./budget.tsx";

const AREAS = [
  ["agents", "Agents and runs"],
  ["chat", "Completions and chat"],
  ["secrets", "Secrets"],
  ["billing", "Usage and billing"],
  ["keys", "API keys"],
] as const;
type Right = "none" | "read" | "write";
type Rights = Record<(typeof AREAS)[number][0], Right>;
const NO_RIGHTS: Rights = { agents: "none", chat: "none", secrets: "none", billing: "none", keys: "none" };

/** Usual choices of rights, the narrowest first. The first one is chosen for a new key. */
const PRESETS = [
  ["completions", "Completions only", { ...NO_RIGHTS, chat: "write" }],
  ["agents", "Run and chat with agents", { ...NO_RIGHTS, agents: "write", chat: "write" }],
  ["reports", "Read usage and billing", { ...NO_RIGHTS, billing: "read" }],
  ["all", "All rights", { agents: "write", chat: "write", secrets: "write", billing: "write", keys: "write" }],
] as const satisfies readonly (readonly [string, string, Rights])[];
const PRESET_NAMES = [...PRESETS.map(([id, name]) => [id, name] as const), ["own", "My own choice"] as const];
type Preset = (typeof PRESET_NAMES)[number][0];

/** The write right includes the read right. */
const scopesOf = (rights: Rights) =>
  AREAS.flatMap(([area]) => {
    const right = rights[area];
    if (right === "none") return [];
    return right === "read" ? [`${area}:read` as const] : [`${area}:read` as const, `${area}:write` as const];
  });

/** The right to decide what agents ask. It is in no choice of rights. */
const DECIDE = "agents:approve" as const;

/** The rights of a key, by the names that the form has for them. */
export function rightsInWords(scopes: readonly string[]): string {
  const rightTo = (area: keyof Rights): Right =>
    scopes.includes(`${area}:write`) ? "write" : scopes.includes(`${area}:read`) ? "read" : "none";
  const preset = PRESETS.find(([, , rights]) => AREAS.every(([area]) => rights[area] === rightTo(area)));
  const areas = AREAS.flatMap(([area, title]) =>
    rightTo(area) === "none" ? [] : rightTo(area) === "read" ? [`${title} (read)`] : [title],
  );
  const names = preset === undefined ? areas : [preset[1]];
  return [...names, ...(scopes.includes(DECIDE) ? ["Decides for you"] : [])].join(", ");
}

/** The settings of a key as they are typed. Empty: no limit. */
interface KeyDraft extends BudgetDraft {
  name: string;
  expires: string;
  models: string;
  requests: string;
  tokens: string;
  runs: string;
}
const EMPTY: KeyDraft = {
  name: "",
  expires: "",
  budget: "",
  interval: "",
  models: "",
  requests: "",
  tokens: "",
  runs: "",
};

/** An empty list of models, which allows none. */
const NO_MODEL = "none";
const typed = (value: number | null): string => (value === null ? "" : String(value));

function draftOf(key: ApiKey): KeyDraft {
  const { name, expires_at, allowed_models, limits } = key;
  return {
    ...budgetDraftOf(key),
    name,
    expires: expires_at === null ? "" : dayForInput(expires_at),
    models: allowed_models === null ? "" : allowed_models.length === 0 ? NO_MODEL : allowed_models.join(", "),
    requests: typed(limits.requests_per_minute),
    tokens: typed(limits.tokens_per_minute),
    runs: typed(limits.concurrent_runs),
  };
}

const limitOf = (text: string): number | null => (text === "" ? null : Number(text));

function bodyOf({ name, expires, models, requests, tokens, runs, ...budget }: KeyDraft) {
  const ids = toList(models);
  const [id, ...more] = ids;
  return {
    name,
    expires_at: expires === "" ? null : new Date(`${expires}T23:59:59`).toISOString(),
    ...budgetOf(budget),
    allowed_models: id === undefined ? null : id === NO_MODEL && more.length === 0 ? [] : ids,
    limits: {
      requests_per_minute: limitOf(requests),
      tokens_per_minute: limitOf(tokens),
      concurrent_runs: limitOf(runs),
    },
  };
}

/** Only what the person has changed, so that an edit does not undo a change from elsewhere. */
function changesOf(key: ApiKey, draft: KeyDraft): Body<"PATCH /api/v1/api-keys/{id}"> {
  const before = bodyOf(draftOf(key));
  const after = bodyOf(draft);
  const { limits: _, ...changes } = changedFields(before, after);
  const limits = changedFields(before.limits, after.limits);
  return Object.keys(limits).length === 0 ? changes : { ...changes, limits };
}

interface KeyFieldsProps {
  draft: KeyDraft;
  onDraft: (draft: KeyDraft) => void;
}

function NameField({ draft, onDraft }: KeyFieldsProps) {
  return (
    <TextField
      label="Name"
      param="name"
      required
      maxLength={100}
      value={draft.name}
      onValue={(name) => onDraft({ ...draft, name })}
      placeholder="Website"
      hint="The program that uses the key."
    />
  );
}

const LIMITS = [
  ["requests", "Requests per minute", "limits.requests_per_minute"],
  ["tokens", "Tokens per minute", "limits.tokens_per_minute"],
  ["runs", "Runs at the same time", "limits.concurrent_runs"],
] as const;

/** What the key may use. `of`: the key that is changed. */
function LimitFields({ draft, onDraft, of: key }: KeyFieldsProps & { of: ApiKey | null }) {
  const set = (changes: Partial<KeyDraft>) => onDraft({ ...draft, ...changes });
  return (
    <>
      <div className="grid gap-4 sm:grid-cols-2">
        <BudgetFields draft={draft} onDraft={set} used={key?.budget_tokens == null ? null : key} />
        {LIMITS.map(([limit, label, param]) => (
          <TextField
            key={limit}
            label={label}
            param={param}
            type="number"
            min={1}
            inputMode="numeric"
            value={draft[limit]}
            onValue={(value) => set({ [limit]: value })}
            placeholder="No limit"
          />
        ))}
        <TextField
          label="Valid until"
          param="expires_at"
          type="date"
          max={LAST_DAY}
          value={draft.expires}
          onValue={(expires) => set({ expires })}
          hint="Empty: the key does not expire."
        />
      </div>
      <TextField
        label="Allowed models"
        param="allowed_models"
        value={draft.models}
        onValue={(models) => set({ models })}
        placeholder="All"
        hint={`Ids of models, separated by commas. Empty: the key may use all models; “${NO_MODEL}”: no model.`}
      />
    </>
  );
}

/** Changes a key. Its rights and its value stay. */
export function EditKey({ api_key, onClose }: { api_key: ApiKey; onClose: () => void }) {
  const [draft, setDraft] = useState(() => draftOf(api_key));
  const save = useMutation({
    mutationFn: () =>
      call("PATCH /api/v1/api-keys/{id}", { params: { id: api_key.id }, body: changesOf(api_key, draft) }),
    onSuccess: async () => {
      await stale("keys", "agents");
      confirmSaved("API key saved");
      onClose();
    },
  });
  return (
    <Dialog title={`Edit ${api_key.name}`} onClose={onClose}>
      <DialogForm save={save} action="Save API key" onCancel={onClose}>
        <NameField draft={draft} onDraft={setDraft} />
        <LimitFields draft={draft} onDraft={setDraft} of={api_key} />
      </DialogForm>
    </Dialog>
  );
}

interface NewKeyProps {
  /** Takes the key of a page that shows it itself; absent: the dialog shows it. */
  onCreated?: (key: string) => void;
  onClose: () => void;
}
export function NewKey({ onCreated, onClose }: NewKeyProps) {
  const [draft, setDraft] = useState(EMPTY);
  const [rights, setRights] = useState<Rights>(PRESETS[0][2]);
  const [decides, setDecides] = useState(false);
  const [key, setKey] = useState<string | null>(null);
  const scopes = [...scopesOf(rights), ...(decides ? [DECIDE] : [])];
  const save = useMutation({
    mutationFn: () => call("POST /api/v1/api-keys", { body: { ...bodyOf(draft), scopes } }),
    onSuccess: (created) => {
      if (onCreated === undefined) setKey(created.key);
      else onCreated(created.key);
      return stale("keys");
    },
  });
  if (key !== null) {
    return (
      <Dialog title="API key created" onClose={onClose}>
        <NewKeyShown api_key={key} onClose={onClose} />
      </Dialog>
    );
  }
  return (
    <Dialog title="New API key" onClose={onClose}>
      <DialogForm save={save} action="Create API key" onCancel={onClose} disabled={scopes.length === 0}>
        <NameField draft={draft} onDraft={setDraft} />
        <RightFields rights={rights} onRights={setRights} />
        {scopes.length === 0 && <p className="text-sm text-muted">Choose at least one right.</p>}
        <Toggle
          label="Decides for you"
          checked={decides}
          onChecked={setDecides}
          hint="Approves, edits and rejects what your agents ask. No choice of rights includes it."
        />
        <LimitFields draft={draft} onDraft={setDraft} of={null} />
      </DialogForm>
    </Dialog>
  );
}

/** The new key. The page Connect can show it in its snippets. */
export function NewKeyShown({ api_key, onClose }: { api_key: string; onClose: () => void }) {
  const navigate = useNavigate();
  const connect = () => {
    rememberKey(api_key);
    void navigate({ to: "/developers/connect" });
  };
  return (
    <ShownOnce label="API key" text={api_key} onDone={onClose}>
      <Button icon="provider" onClick={connect}>
        Connect a program
      </Button>
    </ShownOnce>
  );
}

const RIGHT_NAMES = [
  ["none", "None"],
  ["read", "Read"],
  ["write", "Read and write"],
] as const;

function RightChoice({ title, right, onRight }: { title: string; right: Right; onRight: (right: Right) => void }) {
  return (
    <>
      <span>{title}</span>
      <Select aria-label={title} className="w-40" value={right} options={RIGHT_NAMES} onValue={onRight} />
    </>
  );
}

function presetOf(rights: Rights): Preset {
  const isSame = (preset: Rights) => AREAS.every(([area]) => preset[area] === rights[area]);
  return PRESETS.find(([, , preset]) => isSame(preset))?.[0] ?? "own";
}

function RightFields({ rights, onRights }: { rights: Rights; onRights: (rights: Rights) => void }) {
  const preset = presetOf(rights);
  const [shown, setShown] = useState(false);
  const choose = (chosen: Preset) => {
    setShown(chosen === "own");
    const found = PRESETS.find(([id]) => id === chosen);
    if (found !== undefined) onRights(found[2]);
  };
  return (
    <fieldset className="space-y-2">
      <SelectField
        label="Rights"
        value={shown ? "own" : preset}
        options={PRESET_NAMES}
        onValue={choose}
        hint="Give the key only what its program needs. Rights cannot be changed later."
      />
      {(shown || preset === "own") && (
        <div className="grid grid-cols-[1fr_auto] items-center gap-x-4 gap-y-1.5">
          {AREAS.map(([area, title]) => (
            <RightChoice
              key={area}
              title={title}
              right={rights[area]}
              onRight={(right) => onRights({ ...rights, [area]: right })}
            />
          ))}
        </div>
      )}
    </fieldset>
  );
}
