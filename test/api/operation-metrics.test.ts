import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { TOOL_ERROR_CODES } from "../../src/agents/tools/tools.types.ts";
import { RUN_ERROR_CODES } from "../../src/api/contract/runs.ts";
import { ERROR_CODES } from "../../src/app/error-catalogue.ts";
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

test("counters of errors begin at 0 for every known label value, so that the first failure after a start is an increase", async () => {
  const text = await metrics();
  const zeros = new Set([...text.matchAll(/^(purser_\w+_total\{.*\}) 0$/gm)].map(([, series]) => series));
  const expected = [
    ...["key_service", "data_key", "rows"].map((cause) => `purser_vault_errors_total{cause="${cause}"}`),
    ...ERROR_CODES.filter((code) => code !== "missing_api_key").map(
      (code) => `purser_http_errors_total{code="${code}"}`,
    ),
    ...RUN_ERROR_CODES.map((error) => `purser_runs_total{status="failed",error="${error}"}`),
    ...["web_fetch", "send_webhook", "mcp", "unknown"].flatMap((tool) =>
      TOOL_ERROR_CODES.map((code) => `purser_tool_failures_total{tool="${tool}",code="${code}"}`),
    ),
    ...["lab/plain", "lab/vectors"].flatMap((model) => [
      `purser_upstream_errors_total{provider="lab",model="${model}",code="upstream_error"}`,
      `purser_upstream_errors_total{provider="lab",model="${model}",code="upstream_timeout"}`,
      `purser_usage_reports_disbelieved_total{provider="lab",model="${model}"}`,
    ]),
    ...["delivered", "retry", "failed", "gone"].map((outcome) => `purser_notice_tries_total{outcome="${outcome}"}`),
    ...["link", "notice"].flatMap((kind) =>
      ["sent", "retry", "failed"].map((outcome) => `purser_mail_tries_total{kind="${kind}",outcome="${outcome}"}`),
    ),
    ...["read", "failed"].map((outcome) => `purser_payment_event_reads_total{outcome="${outcome}"}`),
  ];
  expect(expected.filter((series) => !zeros.has(series))).toEqual([]);
  for (const name of ["purser_absorbed_tokens_total", "purser_payment_events_missed_total"]) {
    expect(text).toMatch(new RegExp(`^${name} 0$`, "m"));
  }
});

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
  expect([checked.status, checked.stderr]).toEqual([0, ""]);
});
