import { useMutation } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { call } from "../api/client.ts";
import { rememberKey } from "../api/new-key.ts";
import { type ApiKey, keysQuery, stale } from "../api/queries.ts";
import { ago, count, day, number } from "../format.ts";
import { Badge, Button, Card, Empty, PageHeader } from "../ui/basics.tsx";
import { Meter } from "../ui/chart.tsx";
import { ShownOnce } from "../ui/copy.tsx";
import { Confirm, Dialog, DialogForm, FormEnd } from "../ui/dialog.tsx";
import { LAST_DAY, onSubmit, TextField } from "../ui/fields.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { Select, SelectField } from "../ui/select.tsx";

const AREAS = [
  ["agents", "Agents and runs"],
  ["chat", "Completions and chat"],
  ["secrets", "Secrets"],
  ["billing", "Usage and billing"],
  ["keys", "API keys"],
] as const;
type Right = "none" | "read" | "write";
type Rights = Record<(typeof AREAS)[number][0], Right>;
const ALL: Rights = { agents: "write", chat: "write", secrets: "write", billing: "write", keys: "write" };

/** The write right includes the read right. */
const scopesOf = (rights: Rights) =>
  AREAS.flatMap(([area]) => {
    const right = rights[area];
    if (right === "none") return [];
    return right === "read" ? [`${area}:read` as const] : [`${area}:read` as const, `${area}:write` as const];
  });

type Interval = "" | "day" | "week" | "month";
const INTERVALS: readonly (readonly [Interval, string])[] = [
  ["", "Never"],
  ["day", "Each day (UTC)"],
  ["week", "Each week, on Monday (UTC)"],
  ["month", "Each month (UTC)"],
];

/** The limits as they are typed; empty: none. */
interface KeyLimits {
  budget: string;
  interval: Interval;
  models: string;
  requests: string;
}

const limitsIn = ({ budget, interval, models, requests }: KeyLimits) => ({
  ...(budget === "" ? {} : { budget_tokens: Number(budget), budget_interval: interval === "" ? null : interval }),
  ...(models.trim() === "" ? {} : { allowed_models: models.split(/[\s,]+/).filter((id) => id !== "") }),
  ...(requests === "" ? {} : { limits: { requests_per_minute: Number(requests) } }),
});

type Open = { what: "new" } | { what: "rotate" | "revoke"; key: ApiKey } | null;

const isOver = (key: ApiKey) =>
  key.revoked_at !== null || (key.expires_at !== null && Date.parse(key.expires_at) <= Date.now());

export function KeysPage() {
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  const columns: Column<ApiKey>[] = [
    {
      title: "Key",
      cell: (key) => (
        <>
          <span className="font-medium wrap-anywhere">{key.name}</span>{" "}
          {key.revoked_at !== null ? (
            <Badge tone="bad">revoked</Badge>
          ) : (
            isOver(key) && <Badge tone="warn">expired</Badge>
          )}
          <code className="block text-sm text-muted">
            {key.prefix}…{key.last_four}
          </code>
          <div className="mt-1 text-sm md:hidden">
            <Spent of={key} />
          </div>
        </>
      ),
    },
    { title: "Rights", wide: true, cell: (key) => <Scopes scopes={key.scopes} /> },
    {
      title: "Spent",
      wide: true,
      cell: (key) => <Spent of={key} />,
    },
    {
      title: "Last used",
      wide: true,
      cell: (key) =>
        key.last_used_at === null ? (
          <span className="text-muted">never</span>
        ) : (
          <span className="whitespace-nowrap">{ago(key.last_used_at)}</span>
        ),
    },
    {
      title: "Expires",
      wide: true,
      cell: (key) => (key.expires_at === null ? <span className="text-muted">never</span> : day(key.expires_at)),
    },
    {
      title: "",
      numeric: true,
      cell: (key) =>
        key.revoked_at === null && (
          <span className="flex justify-end gap-1 max-md:flex-col">
            {!isOver(key) && (
              <Button kind="quiet" onClick={() => setOpen({ what: "rotate", key })} aria-label={`Rotate ${key.name}`}>
                Rotate
              </Button>
            )}
            <Button kind="quiet" onClick={() => setOpen({ what: "revoke", key })} aria-label={`Revoke ${key.name}`}>
              Revoke
            </Button>
          </span>
        ),
    },
  ];
  const create = (
    <Button kind="primary" icon="plus" onClick={() => setOpen({ what: "new" })}>
      New key
    </Button>
  );
  return (
    <>
      <PageHeader title="API keys" note={<Purpose />}>
        {create}
      </PageHeader>
      <Card flush>
        <PagedTable
          label="API keys"
          query={keysQuery}
          columns={columns}
          keyOf={(key) => key.id}
          empty={
            <Empty icon="keys" title="No keys yet" action={create}>
              Create one for each program. Give it only the rights that it needs, and a budget if you like.
            </Empty>
          }
        />
      </Card>
      {open?.what === "new" && <NewKey onClose={close} />}
      {open?.what === "rotate" && <Rotate api_key={open.key} onClose={close} />}
      {open?.what === "revoke" && (
        <Confirm
          title={`Revoke ${open.key.name}?`}
          action="Revoke key"
          saved="API key revoked"
          onClose={close}
          onConfirm={async () => {
            await call("DELETE /api/v1/api-keys/{id}", { params: { id: open.key.id } });
            await stale("keys");
          }}
        >
          Requests with this key fail within a second. This cannot be undone.
        </Confirm>
      )}
    </>
  );
}

function Purpose() {
  return (
    <>
      For programs.{" "}
      <Link to="/connect" className="underline">
        Connect
      </Link>{" "}
      shows the settings of each program.
    </>
  );
}

function Spent({ of: key }: { of: ApiKey }) {
  if (key.budget_tokens === null) return <>{count(key.spent_tokens, "token")}</>;
  const { budget_used_tokens: used, budget_resets_at } = key;
  return (
    <div
      className="min-w-28"
      title={budget_resets_at === null ? undefined : `Starts again on ${day(budget_resets_at)}`}
    >
      {number(used)} <span className="text-muted">of {count(key.budget_tokens, "token")}</span>
      <Meter
        label={`Budget of ${key.name}`}
        value={used}
        of={key.budget_tokens}
        tone={used * 5 >= key.budget_tokens * 4 ? "bg-warn" : "bg-accent"}
      />
    </div>
  );
}

function Scopes({ scopes }: { scopes: readonly string[] }) {
  const all = AREAS.every(([area]) => scopes.includes(`${area}:write`) && scopes.includes(`${area}:read`));
  if (all) return <>all rights</>;
  const areas = AREAS.filter(([area]) => scopes.some((scope) => scope.startsWith(`${area}:`)));
  return <>{areas.map(([area]) => (scopes.includes(`${area}:write`) ? area : `${area} (read)`)).join(", ")}</>;
}

function LimitFields({ limits, onLimits }: { limits: KeyLimits; onLimits: (limits: KeyLimits) => void }) {
  const { budget, interval, models, requests } = limits;
  const set = (changes: Partial<KeyLimits>) => onLimits({ ...limits, ...changes });
  return (
    <>
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField
          label="Budget in tokens"
          param="budget_tokens"
          type="number"
          min={0}
          inputMode="numeric"
          value={budget}
          onValue={(value) => set({ budget: value })}
          placeholder="no limit"
        />
        <SelectField
          label="Budget starts again"
          param="budget_interval"
          value={interval}
          onValue={(value) => set({ interval: value })}
          options={INTERVALS}
          disabled={budget === ""}
        />
        <TextField
          label="Requests per minute"
          param="limits.requests_per_minute"
          type="number"
          min={1}
          inputMode="numeric"
          value={requests}
          onValue={(value) => set({ requests: value })}
          placeholder="no limit"
        />
      </div>
      <TextField
        label="Allowed models"
        param="allowed_models"
        value={models}
        onValue={(value) => set({ models: value })}
        placeholder="all"
        hint="Ids of models, separated by commas. Empty: the key may use all models."
      />
    </>
  );
}

function NewKey({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [rights, setRights] = useState(ALL);
  const [expires, setExpires] = useState("");
  const [limits, setLimits] = useState<KeyLimits>({ budget: "", interval: "", models: "", requests: "" });
  const [key, setKey] = useState<string | null>(null);
  const save = useMutation({
    mutationFn: () => {
      const body = {
        name,
        scopes: scopesOf(rights),
        ...(expires === "" ? {} : { expires_at: new Date(`${expires}T23:59:59`).toISOString() }),
        ...limitsIn(limits),
      };
      return call("POST /api/v1/api-keys", { body });
    },
    onSuccess: (created) => {
      setKey(created.key);
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
      <DialogForm save={save} action="Create API key" onCancel={onClose} disabled={scopesOf(rights).length === 0}>
        <TextField
          label="Name"
          param="name"
          required
          maxLength={100}
          value={name}
          onValue={setName}
          placeholder="Website"
          hint="The program that uses the key."
        />
        <fieldset>
          <legend className="mb-1 font-medium">Rights</legend>
          <div className="grid grid-cols-[1fr_auto] items-center gap-x-4 gap-y-1.5">
            {AREAS.map(([area, title]) => (
              <RightChoice
                key={area}
                title={title}
                right={rights[area]}
                onRight={(right) => setRights({ ...rights, [area]: right })}
              />
            ))}
          </div>
          {scopesOf(rights).length === 0 && <p className="mt-1 text-sm text-muted">Choose at least one right.</p>}
        </fieldset>
        <div className="grid gap-4 sm:grid-cols-2">
          <TextField
            label="Valid until"
            param="expires_at"
            type="date"
            max={LAST_DAY}
            value={expires}
            onValue={setExpires}
            hint="Empty: the key does not expire."
          />
        </div>
        <LimitFields limits={limits} onLimits={setLimits} />
      </DialogForm>
    </Dialog>
  );
}

/** The new key. The page Connect can show it in its snippets. */
function NewKeyShown({ api_key, onClose }: { api_key: string; onClose: () => void }) {
  const navigate = useNavigate();
  const connect = () => {
    rememberKey(api_key);
    void navigate({ to: "/connect" });
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
  ["none", "none"],
  ["read", "read"],
  ["write", "read and write"],
] as const;

function RightChoice({ title, right, onRight }: { title: string; right: Right; onRight: (right: Right) => void }) {
  return (
    <>
      <span>{title}</span>
      <Select aria-label={title} className="w-40" value={right} options={RIGHT_NAMES} onValue={onRight} />
    </>
  );
}

const GRACE = [
  ["0", "immediately"],
  ["3600", "in an hour"],
  ["86400", "in a day"],
  ["604800", "in a week"],
] as const;

function Rotate({ api_key, onClose }: { api_key: ApiKey; onClose: () => void }) {
  const [grace, setGrace] = useState<(typeof GRACE)[number][0]>("3600");
  const [key, setKey] = useState<string | null>(null);
  const rotate = useMutation({
    mutationFn: () =>
      call("POST /api/v1/api-keys/{id}/rotate", {
        params: { id: api_key.id },
        body: { grace_seconds: Number(grace) },
      }),
    onSuccess: (rotated) => {
      setKey(rotated.key);
      return stale("keys");
    },
  });
  return (
    <Dialog title={`Rotate ${api_key.name}`} onClose={onClose}>
      {key !== null ? (
        <NewKeyShown api_key={key} onClose={onClose} />
      ) : (
        <form onSubmit={onSubmit(rotate.mutate)} className="space-y-4">
          <p className="text-muted">The key gets a new value. Its rights, budget and history stay.</p>
          <SelectField label="The old value ends" value={grace} options={GRACE} onValue={setGrace} />
          <FormEnd error={rotate.error} busy={rotate.isPending} onCancel={onClose}>
            Rotate key
          </FormEnd>
        </form>
      )}
    </Dialog>
  );
}
