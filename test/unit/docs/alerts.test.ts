import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";

// Each rule of deploy/alerts.yml, executed by promtool on made-up series (one value every 15 s).

const ALERTS = join(import.meta.dirname, "../../../deploy/alerts.yml");
const rules: { alert: string; labels: object; annotations: { summary: string } }[] = parse(readFileSync(ALERTS, "utf8"))
  .groups[0].rules;

/** The values of each series, in promtool's notation. */
type Series = Record<string, string>;
interface Case {
  fires: Series;
  quiet: Series;
  /** Minutes after the first value. */
  at_min: number;
  /** The labels of the alert, besides its severity. */
  labels?: Record<string, string>;
}

/** The first failure after a start: a counter that begins at 0. */
const FIRST = "0x8 1x40";
const CASES: Record<string, Case> = {
  PurserDown: {
    fires: { 'up{job="purser",instance="a"}': "1x8 0x20" },
    quiet: { 'up{job="purser",instance="a"}': "1x8 0x2 1x20", 'up{job="other",instance="b"}': "0x40" },
    at_min: 5,
    labels: { job: "purser", instance: "a" },
  },
  PurserDatabaseDown: {
    fires: { 'purser_database_up{instance="a"}': "1x8 0x20" },
    quiet: { 'purser_database_up{instance="a"}': "1x8 0 1x20" },
    at_min: 5,
    labels: { instance: "a" },
  },
  PurserAbsorbedTokens: {
    fires: { 'purser_absorbed_tokens_total{instance="a"}': FIRST },
    quiet: { 'purser_absorbed_tokens_total{instance="a"}': "0x40" },
    at_min: 10,
    labels: { instance: "a" },
  },
  PurserInternalErrors: {
    fires: { 'purser_http_errors_total{code="internal"}': "0+2x60" },
    quiet: {
      'purser_http_errors_total{code="internal"}': FIRST,
      'purser_http_errors_total{code="not_found"}': "0+9x60",
    },
    at_min: 12,
  },
  PurserSweepStale: {
    fires: { 'purser_sweep_age_seconds{instance="a",source="expiries"}': "0+15x40" },
    quiet: { 'purser_sweep_age_seconds{instance="a",source="expiries"}': "60x40" },
    at_min: 5,
    labels: { instance: "a", source: "expiries" },
  },
  PurserClockSkew: {
    fires: { 'purser_clock_skew_seconds{instance="a"}': "-3x60" },
    quiet: { 'purser_clock_skew_seconds{instance="a"}': "1x60" },
    at_min: 10,
    labels: { instance: "a" },
  },
  PurserRunsWait: {
    fires: { purser_runs_queued_oldest_seconds: "400x80" },
    quiet: { purser_runs_queued_oldest_seconds: "200x80" },
    at_min: 15,
  },
  PurserScheduledRunsLate: {
    fires: {
      'purser_scheduled_run_lateness_seconds_bucket{le="60"}': "0x120",
      'purser_scheduled_run_lateness_seconds_bucket{le="300"}': "0+1x120",
      'purser_scheduled_run_lateness_seconds_bucket{le="+Inf"}': "0+1x120",
    },
    quiet: {
      'purser_scheduled_run_lateness_seconds_bucket{le="60"}': "0+1x120",
      'purser_scheduled_run_lateness_seconds_bucket{le="300"}': "0+1x120",
      'purser_scheduled_run_lateness_seconds_bucket{le="+Inf"}': "0+1x120",
    },
    at_min: 28,
  },
  PurserRunsLost: {
    fires: { 'purser_runs_total{status="failed",error="worker_lost"}': FIRST },
    quiet: {
      'purser_runs_total{status="failed",error="budget_exceeded"}': FIRST,
      'purser_runs_total{status="succeeded"}': "0+1x40",
    },
    at_min: 8,
  },
  PurserProviderErrors: {
    fires: { 'purser_upstream_errors_total{provider="lab",code="upstream_error"}': "0+6x120" },
    quiet: {
      'purser_upstream_errors_total{provider="lab",code="upstream_error"}': "0+1x120",
      'purser_upstream_errors_total{provider="lab",code="context_length_exceeded"}': "0+9x120",
    },
    at_min: 25,
    labels: { provider: "lab" },
  },
  PurserHoldsGrow: {
    fires: { purser_holds_open: "20000x100" },
    quiet: { purser_holds_open: "5000x100" },
    at_min: 20,
  },
  PurserConnectionsShort: {
    fires: { 'purser_database_connections{instance="a",state="waiting"}': "30x60" },
    quiet: {
      'purser_database_connections{instance="a",state="waiting"}': "30x8 0x60",
      'purser_database_connections{instance="a",state="idle"}': "90x60",
    },
    at_min: 10,
    labels: { instance: "a" },
  },
  PurserNoticesFail: {
    fires: { 'purser_notice_tries_total{outcome="failed"}': FIRST },
    quiet: {
      'purser_notice_tries_total{outcome="failed"}': "0x40",
      'purser_notice_tries_total{outcome="retry"}': "0+1x40",
    },
    at_min: 10,
    labels: { outcome: "failed" },
  },
  PurserMailFails: {
    fires: {
      'purser_mail_tries_total{kind="link",outcome="retry"}': FIRST,
      'purser_mail_tries_total{kind="link",outcome="sent"}': "7x60",
    },
    quiet: {
      'purser_mail_tries_total{kind="link",outcome="retry"}': FIRST,
      'purser_mail_tries_total{kind="notice",outcome="sent"}': "7x20 8x60",
    },
    at_min: 13,
  },
  PurserWebhookMissed: {
    fires: { purser_payment_events_missed_total: FIRST },
    quiet: { purser_payment_events_missed_total: "0x40" },
    at_min: 10,
  },
  PurserPaymentEventsUnread: {
    fires: {
      'purser_payment_event_reads_total{outcome="failed"}': "0x8 1x400",
      'purser_payment_event_reads_total{outcome="read"}': "0x408",
    },
    quiet: {
      'purser_payment_event_reads_total{outcome="failed"}': "0x8 1x400",
      'purser_payment_event_reads_total{outcome="read"}': "0+1x408",
    },
    at_min: 90,
  },
  PurserVaultErrors: {
    fires: { 'purser_vault_errors_total{cause="data_key"}': FIRST, 'purser_vault_errors_total{cause="rows"}': "0x48" },
    quiet: { 'purser_vault_errors_total{cause="data_key"}': "0x48" },
    at_min: 8,
    labels: { cause: "data_key" },
  },
};

it("each alert has a case in which it fires, and one in which it does not", () => {
  expect(Object.keys(CASES).sort()).toEqual(rules.map(({ alert }) => alert).sort());
});

it("the alerts fire on their cases, those of a first failure after a start too, and on no others", (context) => {
  if (spawnSync("promtool", ["--version"]).error !== undefined) {
    const missing = "promtool is not installed: run .ci/run, which installs it";
    return process.env.CI !== undefined ? expect.fail(missing) : context.skip(missing);
  }
  const tests = rules.flatMap(({ alert, labels: own, annotations }) => {
    const { fires, quiet, at_min, labels = {} } = CASES[alert] as Case;
    const summary = annotations.summary.replaceAll(
      /\{\{ \$labels\.(\w+) \}\}/g,
      (_, name: string) => labels[name] ?? "",
    );
    const expected = [{ exp_labels: { ...own, ...labels }, exp_annotations: { summary } }];
    return [
      { series: fires, exp_alerts: expected },
      { series: quiet, exp_alerts: [] },
    ].map(({ series, exp_alerts }) => ({
      name: alert,
      interval: "15s",
      input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
      alert_rule_test: [{ alertname: alert, eval_time: `${at_min}m`, exp_alerts }],
    }));
  });
  const folder = mkdtempSync(join(tmpdir(), "purser-alerts-"));
  const file = join(folder, "tests.json");
  writeFileSync(file, JSON.stringify({ rule_files: [ALERTS], evaluation_interval: "15s", tests }));
  const { status, stdout, stderr } = spawnSync("promtool", ["test", "rules", file], { encoding: "utf8" });
  rmSync(folder, { recursive: true });
  expect([status, stdout + stderr]).toEqual([0, expect.stringContaining("SUCCESS")]);
});
