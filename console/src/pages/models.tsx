import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Model, pricesQuery } from "../api/queries.ts";
import { day, dollars, number } from "../format.ts";
import { Badge, buttonClass, Card, PageHeader, Skeleton } from "../ui/basics.tsx";
import { TextField } from "../ui/fields.tsx";
import { type Column, Table } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

const price = (rate: number): string => dollars(rate * 1_000_000);

const ABILITIES = [
  ["tools", "tools"],
  ["json_schema", "JSON schema"],
  ["vision", "images"],
  ["files", "files"],
  ["audio", "audio"],
] as const;

/** The price of one kind of tokens, and the prices of long requests. */
function Price({ of: model, rate }: { of: Model; rate: "input_rate" | "cached_input_rate" | "output_rate" }) {
  if (rate === "output_rate" && model.kind === "embedding") return <span className="text-muted">none</span>;
  return (
    <>
      {price(model[rate])}
      {model.tiers.map((tier) => (
        <span key={tier.above_input_tokens} className="block text-sm text-muted">
          {price(tier[rate])} above {number(tier.above_input_tokens)} input tokens
        </span>
      ))}
    </>
  );
}

const COLUMNS: Column<Model>[] = [
  {
    title: "Model",
    cell: (model) => (
      <>
        <code className="break-all">{model.id}</code> {model.kind === "embedding" && <Badge>embeddings</Badge>}{" "}
        {model.deprecation !== null && (
          <Badge tone="warn">
            {model.deprecation.retires_on === null ? "ends" : `ends ${day(model.deprecation.retires_on)}`}
          </Badge>
        )}
        {model.name !== model.id && <span className="block text-sm text-muted">{model.name}</span>}
      </>
    ),
  },
  { title: "Input", numeric: true, cell: (model) => <Price of={model} rate="input_rate" /> },
  { title: "Cached input", numeric: true, wide: true, cell: (model) => <Price of={model} rate="cached_input_rate" /> },
  { title: "Output", numeric: true, cell: (model) => <Price of={model} rate="output_rate" /> },
  { title: "Context", numeric: true, wide: true, cell: (model) => number(model.context_window) },
  {
    title: "Accepts",
    wide: true,
    cell: ({ supports }) =>
      ABILITIES.filter(([ability]) => supports[ability])
        .map(([, name]) => name)
        .join(", "),
  },
  {
    title: "",
    cell: ({ id, kind }) =>
      kind === "chat" && (
        <Link
          to="/developers/playground"
          search={{ model: id }}
          className={buttonClass("quiet")}
          aria-label={`Try ${id}`}
        >
          Try
        </Link>
      ),
  },
];

/** The models on offer and their prices. */
export function ModelsPage() {
  const models = useQuery(pricesQuery);
  const [text, setText] = useState("");
  const wanted = text.trim().toLowerCase();
  const shown = (models.data ?? []).filter(({ id, name }) => `${id} ${name}`.toLowerCase().includes(wanted));
  return (
    <>
      <PageHeader title="Models" note="Prices in US dollars per million tokens, the cheapest model first." />
      <Card flush>
        {models.isError && (
          <div className="p-4">
            <ProblemNotice error={models.error} onRetry={() => void models.refetch()} />
          </div>
        )}
        {models.isPending && <Skeleton lines={6} />}
        {models.data !== undefined && (
          <>
            <TextField
              label="Search by name"
              type="search"
              className="p-4 sm:max-w-80"
              value={text}
              onValue={setText}
            />
            {shown.length === 0 ? (
              <p className="px-4 pb-5 text-muted">No models match this name.</p>
            ) : (
              <Table label="Models" columns={COLUMNS} rows={shown} keyOf={({ uuid }) => uuid} />
            )}
          </>
        )}
      </Card>
    </>
  );
}
