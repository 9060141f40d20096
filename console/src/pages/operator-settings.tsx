import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { TOKENS_PER_USD } from "../../../src/kernel/constants.ts";
import { type Answer, call } from "../api/client.ts";
import { stale } from "../api/queries.ts";
import { count, instant, money } from "../format.ts";
import { OperatorKeys } from "../parts/operator-keys.tsx";
import { TestClock } from "../parts/system-panel.tsx";
import { Badge, Button, Callout, Card, PageHeader } from "../ui/basics.tsx";
import { CodeBlock } from "../ui/copy.tsx";
import { TextField } from "../ui/fields.tsx";
import { type Column, Table } from "../ui/list.tsx";
import { ProblemNotice, Unloaded } from "../ui/problem.tsx";

type Settings = Answer<"GET /api/v1/admin/settings">;
type Priced = Settings["models"][number];

/** The lines of so many models are shown, so a search for one shows its own. */
const MOST_WITH_LINES = 3;

/** The settings as the service read them, the prices with the lines that change them, and the operators' keys. */
export function OperatorSettingsPage() {
  const [text, setText] = useState("");
  const settings = useQuery({
    queryKey: ["operator", "settings"],
    queryFn: ({ signal }) => call("GET /api/v1/admin/settings", { signal }),
  });
  const reload = useMutation({
    mutationFn: () => call("POST /api/v1/admin/reload", { body: {} }),
    onSettled: () => stale("operator", "models", "agents", "plans"),
  });
  const { data } = settings;
  return (
    <>
      <PageHeader
        title="Settings"
        note="As this node read them. Variables are read at the start, the file again by a reload."
      >
        <Button kind="primary" busy={reload.isPending} onClick={() => reload.mutate()}>
          Reload the file
        </Button>
      </PageHeader>
      <div className="space-y-4">
        <div aria-live="polite" className="empty:hidden">
          {reload.error !== null && <ProblemNotice error={reload.error} />}
          {reload.error !== null && <p className="mt-2">The settings of before stay in force.</p>}
          {reload.data !== undefined && <Reloaded changed={reload.data.changed} />}
        </div>
        {data === undefined ? (
          <Unloaded {...settings} />
        ) : (
          <>
            <TextField
              label="Search the settings and the models"
              type="search"
              autoFocus
              value={text}
              onValue={setText}
              placeholder="Such as MAIL, limits or a model"
            />
            {reload.error === null && <LastReload last={data.last_reload} />}
            <Prices settings={data} text={text} onChoose={setText} />
            <Variables variables={data.variables} text={text} />
            <FileSettings settings={data} text={text} />
          </>
        )}
        <TestClock />
        <OperatorKeys />
      </div>
    </>
  );
}

function Reloaded({ changed }: { changed: readonly string[] }) {
  return (
    <Callout tone="good" icon="check">
      {changed.length === 0 ? (
        "The file was read again, and nothing differs."
      ) : (
        <>
          <strong className="font-semibold">Reloaded.</strong> Changed: {changed.join(", ")}. New calls use it.
        </>
      )}
    </Callout>
  );
}

/** A reload by a signal, or by another operator, may have failed. */
function LastReload({ last }: { last: Settings["last_reload"] }) {
  if (last?.problem == null) return null;
  return (
    <Callout tone="bad" icon="warning">
      <strong className="font-semibold">The last reload was rejected, {instant(last.at)}.</strong> {last.problem}. The
      settings of before stay in force.
    </Callout>
  );
}

const has = (text: string, ...parts: string[]) =>
  parts.some((part) => part.toLowerCase().includes(text.trim().toLowerCase()));
const usd = (dollars: number) => money(dollars * 100, "usd");
const SOURCES = { file: "the file", catalogue: "the catalogue", built_in: "built in" } as const;

function Prices({
  settings: { models, file },
  text,
  onChoose,
}: {
  settings: Settings;
  text: string;
  onChoose: (text: string) => void;
}) {
  const found = models.filter(({ model_id, provider }) => has(text, model_id, provider));
  const opened = text !== "" && found.length <= MOST_WITH_LINES ? found.filter(({ lines }) => lines !== null) : [];
  const columns: Column<Priced>[] = [
    {
      title: "Model",
      cell: ({ model_id, provider, source, line }) => (
        <>
          <span className="font-medium break-all">{model_id}</span>
          <span className="block text-sm text-muted">
            {provider}, {SOURCES[source]}
            {line !== null && `, line ${line}`}
          </span>
        </>
      ),
    },
    { title: "Input", numeric: true, cell: ({ input_usd_per_million }) => usd(input_usd_per_million) },
    {
      title: "Output",
      numeric: true,
      cell: ({ kind, output_usd_per_million }) => (kind === "embedding" ? "None" : usd(output_usd_per_million)),
    },
    { title: "Your cost", wide: true, numeric: true, cell: (model) => <Cost of={model} /> },
    {
      title: "",
      numeric: true,
      cell: ({ model_id, lines }) =>
        lines !== null && (
          <Button kind="quiet" aria-label={`Change price of ${model_id}`} onClick={() => onChoose(model_id)}>
            Change price
          </Button>
        ),
    },
  ];
  if (found.length === 0) return null;
  return (
    <Card
      title="Prices of models"
      note="US dollars per million tokens. The file is the one way to change them: it holds for all nodes that read it."
      flush
    >
      <Table label="Prices of models" columns={columns} rows={found} keyOf={({ model_id }) => model_id} />
      <div className="space-y-4 px-4 pb-4 empty:hidden">
        {opened.map((model) => (
          <PriceLines key={model.model_id} model={model} path={file?.path ?? null} />
        ))}
      </div>
    </Card>
  );
}

function Cost({ of }: { of: Priced }) {
  const { upstream_input_usd_per_million: input, upstream_output_usd_per_million: output } = of;
  if (input === null || output === null) return <span className="text-muted">Unknown</span>;
  return `${usd(input)} / ${usd(output)}`;
}

const RATE_OF_DOLLAR = TOKENS_PER_USD / 1_000_000;
/** The file's rate for a price in dollars per million tokens. It has at most six decimals. */
const toRate = (dollars: number) => Math.round(dollars * RATE_OF_DOLLAR * 1_000_000) / 1_000_000;
/** Typed dollars; null: no price. */
const toPrice = (typed: string) => (/^\d*[.,]?\d+$/.test(typed.trim()) ? Number(typed.replace(",", ".")) : null);

function withRate(lines: string, field: "input_rate" | "output_rate", typed: string): string {
  const price = toPrice(typed);
  if (price === null) return lines;
  return lines.replace(new RegExp(`("?\\b${field}"?: )[\\d.e+-]+`), `$1${toRate(price)}`);
}

/** The lines of the file for a model at the typed price. */
function PriceLines({ model, path }: { model: Priced; path: string | null }) {
  const [input, setInput] = useState(String(model.input_usd_per_million));
  const [output, setOutput] = useState(String(model.output_usd_per_million));
  const lines = withRate(withRate(model.lines ?? "", "input_rate", input), "output_rate", output);
  const price = toPrice(input) ?? model.input_usd_per_million;
  return (
    <div className="space-y-3 rounded-lg border border-line p-4">
      <h3 className="font-medium break-all">Change the price of {model.model_id}</h3>
      <div className="flex flex-wrap gap-3">
        <TextField label="Input, $ per million tokens" inputMode="decimal" value={input} onValue={setInput} />
        {model.kind === "chat" && (
          <TextField label="Output, $ per million tokens" inputMode="decimal" value={output} onValue={setOutput} />
        )}
      </div>
      <ol className="list-decimal space-y-1 pl-5">
        <li>{whereToPut(model, path)}</li>
        <li>
          {path === null
            ? "Start the service again."
            : "Press “Reload the file”. Running calls keep their price, new ones have the new one."}
        </li>
      </ol>
      <CodeBlock name={path ?? "purser.yaml"} text={lines} />
      <p className="text-sm text-pretty text-muted">
        A rate is the price × {RATE_OF_DOLLAR}: {usd(price)} becomes {toRate(price)}. The file's “margin” is a factor on
        prices of the catalogue, not on the rates of an entry: type the price that your users pay.
      </p>
    </div>
  );
}

function whereToPut({ source, line }: Priced, path: string | null): string {
  if (path === null) return "Save these lines as a file, and set PURSER_CONFIG to its path.";
  if (source === "file")
    return `In ${path}, the entry of this model begins at line ${line}. Replace its rates by these:`;
  return `Add this entry to the list “models” of ${path}. It replaces the catalogue's:`;
}

type Variable = Settings["variables"][number];
const FROM = { environment: "Environment", file: "File", default: "Default" } as const;
const VARIABLE_COLUMNS: Column<Variable>[] = [
  { title: "Variable", cell: ({ name }) => <code className="text-sm break-all">{name}</code> },
  {
    title: "Value",
    cell: ({ is_secret, is_set, value }) => {
      if (is_secret && is_set) return <Badge tone="good">Set</Badge>;
      if (value === null) return <span className="text-muted">Not set</span>;
      return <code className="text-sm break-all">{value}</code>;
    },
  },
  {
    title: "From",
    wide: true,
    cell: ({ from, is_set }) => (is_set ? FROM[from] : <span className="text-muted">Default</span>),
  },
];

function Variables({ variables, text }: { variables: readonly Variable[]; text: string }) {
  const found = variables
    .filter(({ name, value }) => has(text, name, value ?? ""))
    .toSorted((a, b) => Number(b.is_set) - Number(a.is_set));
  if (found.length === 0) return null;
  return (
    <Card
      title="Variables"
      note={`${count(found.filter(({ is_set }) => is_set).length, "variable")} set, the others have their defaults. Of secrets you see only whether they are set.`}
      flush
    >
      <Table label="Variables" columns={VARIABLE_COLUMNS} rows={found} keyOf={({ name }) => name} />
    </Card>
  );
}

type OfFile = Settings["file_settings"][number];
const FILE_COLUMNS: Column<OfFile>[] = [
  { title: "Setting", cell: ({ path }) => <code className="text-sm break-all">{path}</code> },
  { title: "Value", cell: ({ value }) => <code className="text-sm break-all">{JSON.stringify(value)}</code> },
  {
    title: "Line",
    numeric: true,
    cell: ({ line }) => (line === null ? <span className="text-muted">Default</span> : line),
  },
];

function FileSettings({ settings: { file, file_settings, read_at }, text }: { settings: Settings; text: string }) {
  const found = file_settings.filter(({ path, value }) => has(text, path, JSON.stringify(value)));
  return (
    <Card
      title="The file"
      note={
        file === null ? "PURSER_CONFIG is not set: all have their defaults." : `${file.path}, read ${instant(read_at)}.`
      }
      flush
    >
      {found.length === 0 ? (
        <p className="px-4 pb-4 text-muted">No setting of the file matches this search.</p>
      ) : (
        <Table label="Settings of the file" columns={FILE_COLUMNS} rows={found} keyOf={({ path }) => path} />
      )}
    </Card>
  );
}
