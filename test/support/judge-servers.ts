import type { JudgeSettings } from "../../src/safety/judge-kinds.ts";
import { type Site, startSite } from "./sites.ts";

/**
 * Fakes of the judges' services, from their published references: Text Embeddings Inference (docs/openapi.json), Lakera
 * Guard v2, Azure AI Content Safety (2024-09-01), Amazon Bedrock Runtime, and LiteLLM's generic guardrail interface.
 */

/** A judge with the defaults of the configuration file. */
export function judgeOf(settings: Partial<JudgeSettings> & Pick<JudgeSettings, "kind">): JudgeSettings {
  return {
    url: null,
    model: null,
    project_id: null,
    secret: null,
    threshold: 0.5,
    timeout_ms: 5_000,
    when: "doubtful",
    on_error: "keep_local",
    ...settings,
  };
}

/** A server that answers every request at `path` with this status and JSON. */
export function startJudge(path: string, body: unknown, status = 200): Promise<Site> {
  return startSite({ [path]: { status, headers: { "content-type": "application/json" }, body: JSON.stringify(body) } });
}

/** A TEI server with a classifier that gives this score to texts that match `attack`, and 0.01 to others. */
export async function startTei(attack: RegExp, score = 0.98): Promise<Site> {
  const site = await startSite({
    "/predict": (_request, response) => {
      const { inputs } = JSON.parse(site.requests.at(-1)?.body ?? "") as { inputs: [string][] };
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify(inputs.map(([text]) => predictions(attack.test(text) ? score : 0.01))));
    },
  });
  return site;
}

/** TEI's answer for one text: the labels of Llama Prompt Guard 2, the likeliest first. */
export function predictions(malicious: number) {
  const labels = [
    { score: malicious, label: "LABEL_1" },
    { score: 1 - malicious, label: "LABEL_0" },
  ];
  return labels.toSorted((one, other) => other.score - one.score);
}
