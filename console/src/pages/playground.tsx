import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { call } from "../api/client.ts";
import { callableModelsQuery, stale } from "../api/queries.ts";
import { DEFAULT_MODEL, modelNamed, PLACEHOLDER_KEY } from "../client-snippets.ts";
import { type Completion, completionCode, LANGUAGES } from "../completion-code.ts";
import { count, dollars, number } from "../format.ts";
import { Button, Card, Facts, PageHeader, Tabs } from "../ui/basics.tsx";
import { CodeBlock } from "../ui/copy.tsx";
import { AreaField, FormErrorProvider, sending } from "../ui/fields.tsx";
import { ModelPicker } from "../ui/picker.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

/** Sends one message to a model, and shows the same call as code. */
export function PlaygroundPage() {
  const { model: asked = DEFAULT_MODEL, code = LANGUAGES[0] } = useSearch({ from: "/signed-in/developers/playground" });
  const navigate = useNavigate();
  const model = modelNamed(asked);
  const models = useQuery(callableModelsQuery);
  const [instructions, setInstructions] = useState("");
  const [message, setMessage] = useState("Say: hello");
  const body: Completion = {
    model,
    messages: [
      ...(instructions === "" ? [] : [{ role: "system" as const, content: instructions }]),
      { role: "user", content: message },
    ],
  };
  const send = useMutation({
    mutationFn: async () => {
      const start = performance.now();
      const completion = await call("POST /api/v1/chat/completions", { body });
      return { ...completion, seconds: (performance.now() - start) / 1000 };
    },
    onSettled: () => stale("profile", "usage", "requests", "transactions"),
  });
  const choose = (model: string) =>
    void navigate({ to: "/developers/playground", search: { model, code }, replace: true, resetScroll: false });
  return (
    <>
      <PageHeader title="Playground" note="Sends one message to a model. It is billed like any other request." />
      <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
        <Card>
          <form className="space-y-4" {...sending(send)}>
            <FormErrorProvider value={send.error}>
              <ModelPicker
                label="Model"
                param="model"
                value={model}
                onValue={choose}
                models={models.data ?? []}
                hint={
                  <Link to="/developers/models" className="underline">
                    Models and prices
                  </Link>
                }
              />
              {models.isError && <ProblemNotice error={models.error} onRetry={() => void models.refetch()} />}
              <AreaField
                label="Instructions"
                rows={2}
                value={instructions}
                onValue={setInstructions}
                hint="Optional."
              />
              <AreaField label="Message" required rows={4} value={message} onValue={setMessage} />
              {send.error !== null && <ProblemNotice error={send.error} />}
              <Button kind="primary" type="submit" busy={send.isPending}>
                Send message
              </Button>
            </FormErrorProvider>
          </form>
        </Card>
        <div className="min-w-0 space-y-4">
          <Card title="Answer">
            <div aria-live="polite">
              {send.data === undefined ? (
                <p className="text-muted">{send.isPending ? "Waiting for the model." : "Nothing sent yet."}</p>
              ) : (
                <Answer completion={send.data} />
              )}
            </div>
          </Card>
          <Card title="The same call as code">
            <Tabs
              label="Languages"
              tabs={LANGUAGES.map((language) => ({
                name: language,
                chosen: language === code,
                to: "/developers/playground",
                search: { model, code: language },
              }))}
            />
            <CodeBlock name={code} text={completionCode(code, { url: location.origin, key: PLACEHOLDER_KEY, body })} />
            <p className="mt-2 text-sm text-muted">
              Replace <code>{PLACEHOLDER_KEY}</code> with one of your{" "}
              <Link to="/developers/keys" className="underline">
                API keys
              </Link>
              .
            </p>
          </Card>
        </div>
      </div>
    </>
  );
}

interface AnswerProps {
  completion: {
    model: string;
    seconds: number;
    choices: { message: { content: string | null }; finish_reason: string | null }[];
    usage: { input_tokens: number; output_tokens: number; cost_tokens: number };
  };
}
function Answer({ completion: { model, seconds, choices, usage } }: AnswerProps) {
  const [choice] = choices;
  return (
    <div className="space-y-4">
      <p dir="auto" className="whitespace-pre-wrap wrap-anywhere">
        {choice?.message.content ?? "The model answered without text."}
      </p>
      {choice?.finish_reason === "length" && (
        <p className="text-sm text-muted">The answer is cut off: the model reached its longest output.</p>
      )}
      <Facts
        facts={[
          ["Model", <code key="model">{model}</code>],
          ["Cost", `${dollars(usage.cost_tokens)} (${count(usage.cost_tokens, "token")})`],
          ["Input", count(usage.input_tokens, "token")],
          ["Output", count(usage.output_tokens, "token")],
          ["Duration", `${number(Math.round(seconds * 10) / 10)} s`],
        ]}
      />
    </div>
  );
}
