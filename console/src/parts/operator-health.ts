import { linkOptions } from "@tanstack/react-router";
import type { Answer } from "../api/client.ts";
import { ago, count } from "../format.ts";

export type Overview = Answer<"GET /api/v1/admin/overview">;
export type Provider = Overview["providers"][number];

/** Where the figures lead. */
export const PLACES = {
  overview: linkOptions({ to: "/operator" }),
  settings: linkOptions({ to: "/operator/settings" }),
  setup: linkOptions({ to: "/operator/setup" }),
  failed_runs: linkOptions({ to: "/operator/runs", search: { status: "failed" } }),
  queued_runs: linkOptions({ to: "/operator/runs", search: { status: "queued" } }),
  running_runs: linkOptions({ to: "/operator/runs", search: { status: "running" } }),
  waiting_runs: linkOptions({ to: "/operator/runs", search: { status: "requires_action" } }),
  payments: linkOptions({ to: "/operator/payments" }),
  mismatches: linkOptions({ to: "/operator/payments", search: { status: "mismatch" } }),
};
export type PlaceName = keyof typeof PLACES;

/** Something that an operator should look at, and where. */
interface Trouble {
  text: string;
  to: PlaceName;
  link: string;
}

/** A run that waits longer finds no worker, or too few. */
const LONG_WAIT_MS = 5 * 60_000;
const OLD_BACKUP_MS = 7 * 86_400_000;
const isOlder = (at: string, ms: number, now: Date) => now.getTime() - Date.parse(at) > ms;

/** Whether the provider's last call failed. */
export const isFailing = ({ last_failure, last_answered_at }: Provider): boolean =>
  last_failure !== null && (last_answered_at === null || last_failure.at > last_answered_at);

/** Providers that can be called, or that the file names without a key. */
export const usedProviders = (overview: Overview): Provider[] =>
  overview.providers.filter(({ models, key }) => models > 0 || key === "set");

/** What is not as it should be; empty: the service is healthy. */
export function listTroubles(overview: Overview, now = new Date()): Trouble[] {
  const { queue, mail, payments, audit, backup, runs, setup } = overview;
  const troubles: (Trouble | false)[] = [
    ...usedProviders(overview)
      .filter(isFailing)
      .map(({ name }): Trouble => ({ text: `${name} failed its last call.`, to: "setup", link: "Test it" })),
    setup.some(({ step, state }) => step === "provider" && state === "to_do") && {
      text: "No model provider is connected.",
      to: "setup",
      link: "Connect one",
    },
    queue.oldest_queued_at !== null &&
      isOlder(queue.oldest_queued_at, LONG_WAIT_MS, now) && {
        text: `The oldest run in the queue was queued ${ago(queue.oldest_queued_at, now)}.`,
        to: "queued_runs",
        link: "Runs",
      },
    runs.failing_agents > 0 && {
      text: `${count(runs.failing_agents, "agent")} had failed runs.`,
      to: "failed_runs",
      link: "Failed runs",
    },
    mail.last_failure !== null && {
      text: `A mail was not sent ${ago(mail.last_failure.at, now)}.`,
      to: "setup",
      link: "Test mail",
    },
    payments.mismatches > 0 && {
      text: `${count(payments.mismatches, "payment")} had another amount than ordered, and granted nothing.`,
      to: "mismatches",
      link: "Payments",
    },
    audit?.problem != null && {
      text: `The last audit found that the ledger is not in order. ${audit.problem}.`,
      to: "overview",
      link: "Run audit",
    },
    backup?.problem != null && {
      text: `The last backup failed: ${backup.problem}`,
      to: "setup",
      link: "Set-up",
    },
    backup?.succeeded_at != null &&
      isOlder(backup.succeeded_at, OLD_BACKUP_MS, now) && {
        text: `The last backup by Purser was ${ago(backup.succeeded_at, now)}.`,
        to: "setup",
        link: "Back up",
      },
  ];
  return troubles.filter((trouble) => trouble !== false);
}
