import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { forgetKey, newKey } from "../api/new-key.ts";
import { callableModelsQuery } from "../api/queries.ts";
import { DEFAULT_MODEL, modelNamed, PLACEHOLDER_KEY, type Snippet, snippetsOf } from "../client-snippets.ts";
import { NewKey } from "../parts/key-form.tsx";
import { buttonClass, Callout, Card, PageHeader, Tabs } from "../ui/basics.tsx";
import { CodeBlock, Copyable } from "../ui/copy.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { SelectField } from "../ui/select.tsx";

/** The settings of programs that call the API, ready to copy. */
export function ConnectPage() {
  const { program, model: asked = DEFAULT_MODEL } = useSearch({ from: "/signed-in/developers/connect" });
  const model = modelNamed(asked);
  const navigate = useNavigate();
  const [key, setKey] = useState(newKey);
  const [creating, setCreating] = useState(false);
  useEffect(() => forgetKey, []);
  const url = location.origin;
  const addressed = (program: string | undefined, model: string) => ({
    ...(program === undefined ? {} : { program }),
    ...(model === DEFAULT_MODEL ? {} : { model }),
  });
  const choose = (chosen: string) =>
    void navigate({ to: "/developers/connect", search: addressed(program, chosen), replace: true, resetScroll: false });
  const snippets = snippetsOf({ url, key: key ?? PLACEHOLDER_KEY, model });
  const shown = snippets.find(({ id }) => id === program) ?? snippets[0];
  return (
    <>
      <PageHeader title="Connect" note="Programs for OpenAI and Anthropic work with another base URL and an API key.">
        <Link to="/developers/keys" className={buttonClass()}>
          API keys
        </Link>
      </PageHeader>
      <div className="space-y-4">
        {key === null ? (
          <Callout tone="accent" icon="keys">
            Replace <code>{PLACEHOLDER_KEY}</code> with an API key.{" "}
            <button type="button" className="underline" onClick={() => setCreating(true)}>
              Create a key here
            </button>{" "}
            to have it filled in.
          </Callout>
        ) : (
          <Callout tone="warn" icon="warning">
            The snippets contain your new key. Copy what you need: the key is not shown again after you leave this page.
          </Callout>
        )}
        <Settings url={url} model={model} onModel={choose} />
        <div>
          <Tabs
            label="Programs"
            tabs={snippets.map(({ id, title }) => ({
              name: title,
              chosen: id === shown?.id,
              to: "/developers/connect",
              search: addressed(id, model),
            }))}
          />
          {shown !== undefined && <ProgramCard snippet={shown} />}
        </div>
        <p className="text-sm text-muted">
          Anyone with the key can spend your tokens. Give each program a key of its own, with a budget and only the
          right “Completions only”.
        </p>
      </div>
      {creating && (
        <NewKey
          onClose={() => setCreating(false)}
          onCreated={(created) => {
            setKey(created);
            setCreating(false);
          }}
        />
      )}
    </>
  );
}

interface SettingsProps {
  url: string;
  model: string;
  onModel: (model: string) => void;
}
function Settings({ url, model, onModel }: SettingsProps) {
  const models = useQuery(callableModelsQuery);
  const titleOf = (id: string, name: string) => (id === name || id === DEFAULT_MODEL ? name : `${name} (${id})`);
  const offered = (models.data ?? []).map(({ id, name }) => [id, titleOf(id, name)] as const);
  const options = offered.some(([id]) => id === model) ? offered : [[model, model] as const, ...offered];
  return (
    <Card>
      <div className="grid grid-cols-1 gap-4 md:grid-cols-2">
        <div>
          <p className="mb-1 font-medium">Base URL</p>
          <Copyable label="Base URL" text={`${url}/api/v1`} />
          <p className="mt-1 text-sm text-muted">For Claude Code and the Anthropic SDK it ends with /api.</p>
        </div>
        <SelectField
          label="Model"
          hint="A model, auto, or one of your agents."
          value={model}
          options={options}
          onValue={onModel}
        />
      </div>
      {models.isError && <ProblemNotice error={models.error} onRetry={() => void models.refetch()} />}
    </Card>
  );
}

function ProgramCard({ snippet: { title, note, blocks } }: { snippet: Snippet }) {
  return (
    <Card title={title}>
      <p className="mb-4 text-muted">
        {note.split("`").map((text, index) => (index % 2 === 1 ? <code key={text}>{text}</code> : text))}
      </p>
      <div className="space-y-4">
        {blocks.map(({ name, text }) => (
          <CodeBlock key={name} name={name} text={text} />
        ))}
      </div>
    </Card>
  );
}
