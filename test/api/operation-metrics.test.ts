import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { openAiVectors } from "../support/embeddings.ts";
import { ask, LAB_MODELS, type Lab, startLab } from "../support/lab.ts";
import { metricsOf } from "../support/metrics.ts";
import { completion, delta, events, json } from "../support/upstream.ts";

const DEPLOY = join(import.meta.dirname, "../../deploy");
const ALERTS = join(DEPLOY, "alerts.yml");
const promtool = spawnSync("promtool", ["--version"]).status === 0;

const dashboard: { panels: { targets: { expr: string }[] }[] } = JSON.parse(
  readFileSync(join(DEPLOY, "dashboard.json"), "utf8"),
);
const rules: { alert: string; expr: string }[] = parse(readFileSync(ALERTS, "utf8")).groups[0].rules;
const queries = [
  ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ...rules.map(({ expr }) => expr),
];

const VECTORS = {
  id: "lab/vectors",
  kind: "embedding",
  input_rate: 1,
  output_rate: 0,
  max_output_tokens: undefined,
  supports: undefined,
};

let lab: Lab;
beforeAll(async () => {
  lab = await startLab([...LAB_MODELS, VECTORS]);
});
afterAll(() => lab.service.stop());
const metrics = () => metricsOf(lab.service.url);

test("metrics have the route, the provider, the model, codes, holds, the database and the version", async () => {
  const user = await lab.service.newUser();
  lab.upstream.answer(
    completion(),
    events(delta("a word"), "data: [DONE]\n\n"),
    json({ error: { message: "busy" } }, 500),
  );
  await user.post("/api/v1/chat/completions", ask("lab/plain"));
  await user.post("/api/v1/chat/completions", ask("lab/plain", { stream: true }));
  await user.post("/api/v1/chat/completions", ask("lab/plain"));
  await user.get("/api/v1/agents/01900000-0000-7000-8000-000000000000");
  const text = await metrics();
  for (const line of [
    /^purser_http_request_duration_seconds_count\{method="POST",route="\/api\/v1\/chat\/completions",status="200"\} 2$/m,
    /^purser_http_request_duration_seconds_count\{method="GET",route="\/api\/v1\/agents\/\{id\}",status="404"\} 1$/m,
    /^purser_upstream_duration_seconds_count\{provider="lab",model="lab\/plain"\} 1$/m,
    /^purser_upstream_first_token_seconds_count\{provider="lab",model="lab\/plain"\} 1$/m,
    /^purser_upstream_errors_total\{provider="lab",model="lab\/plain",code="upstream_error"\} 1$/m,
    /^purser_http_errors_total\{code="not_found"\} 1$/m,
    /^purser_model_output_tokens_total\{model="lab\/plain"\} \d+$/m,
    /^purser_holds_open 0$/m,
    /^purser_database_up 1$/m,
    /^purser_database_connections\{state="waiting"\} 0$/m,
    /^purser_build_info\{version="\d+\.\d+\.\d+",node="26[.\d]+"\} 1$/m,
  ]) {
    expect.soft(text).toMatch(line);
  }
  await expect.poll(metrics).toMatch(/^purser_sweep_age_seconds\{source="expiries"\} \d/m);
});

test("metrics have the calls of embedding models, the failed ones by their code", async () => {
  const user = await lab.service.newUser();
  const asked = { model: "lab/vectors", input: "hello" };
  lab.upstream.answer(openAiVectors(), json({ error: { message: "busy" } }, 500));
  expect((await user.post("/api/v1/embeddings", asked)).status).toBe(200);
  expect((await user.post("/api/v1/embeddings", asked)).status).toBe(502);
  const text = await metrics();
  expect(text).toMatch(/^purser_upstream_duration_seconds_count\{provider="lab",model="lab\/vectors"\} 1$/m);
  expect(text).toMatch(
    /^purser_upstream_errors_total\{provider="lab",model="lab\/vectors",code="upstream_error"\} 1$/m,
  );
});

test("a running node has every metric that the dashboard and the alerts read", async () => {
  const text = await metrics();
  const names = queries.flatMap((query) => query.match(/\b(?:purser|nodejs|process)_[a-z0-9_]+/g) ?? []);
  expect(names.length).toBeGreaterThan(30);
  for (const name of names) {
    expect.soft(text).toContain(`# TYPE ${name.replace(/_(bucket|count|sum)$/, "")} `);
  }
});

test.skipIf(!promtool)("promtool accepts the metrics, the alert rules and every query of the dashboard", async () => {
  execFileSync("promtool", ["check", "rules", ALERTS], { stdio: "pipe" });
  const folder = mkdtempSync(join(tmpdir(), "purser-rules-"));
  const file = join(folder, "queries.json");
  const recorded = queries.map((expr, n) => ({
    record: `query:${n}`,
    expr: expr.replaceAll("$__rate_interval", "5m"),
  }));
  writeFileSync(file, JSON.stringify({ groups: [{ name: "queries", rules: recorded }] }));
  execFileSync("promtool", ["check", "rules", file], { stdio: "pipe" });
  rmSync(folder, { recursive: true });
  const checked = spawnSync("promtool", ["check", "metrics"], { input: await metrics(), encoding: "utf8" });
  // promtool also reports Node's own metrics, which prom-client names.
  expect(checked.stderr.split("\n").filter((line) => line.includes("purser_"))).toEqual([]);
});
