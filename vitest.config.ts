import { defineConfig } from "vitest/config";
import { closingLine } from "./test/support/closing-line.ts";

const attacksOnRows = "test/attacks/vault-*.test.ts";
const onBothStorages = ["test/{api,journeys,properties}/**/*.test.ts", attacksOnRows];
/** The console's journeys, in a real browser: once is enough, on embedded storage. */
const inTheBrowser = "test/journeys/console*.test.ts";
/**
 * Requests, sign-in, clients, payment providers, configuration: the two storages run the same statements for them. Once is
 * enough, on PostgreSQL, which starts in a tenth of the time. What the storages do differently (locks, transactions, the
 * queue, kill -9, notifications, migrations) runs on both.
 */
const onPostgresOnly = [
  "test/api/{accounts,agents,agent-names,clients-*,secret*,sign-in-*,stripe*}.test.ts",
  "test/api/billing-{collected,events,invoices,promises,provider,subscriptions,terms}.test.ts",
  "test/api/{auto-route,bad-input,chat-openai-client,compression,conventions,free-tokens,malformed-requests}.test.ts",
  "test/api/{notices-alerts,notices-delivery,reference,request-limits,routing,safety,threads,trials,webhook-*}.test.ts",
  "test/attacks/vault-tools.test.ts",
  "test/journeys/migrations.test.ts",
];
/** Examples for a newcomer's machine, and attacks on one process: on embedded storage only. */
const onEmbeddedOnly = ["test/journeys/{docs,denial-of-service,behind-a-proxy}.test.ts"];
/** A condition without a time of its own is waited for; one that promises a time names it. */
const expecting = { poll: { timeout: 10_000 } };
const storage = (name: "embedded" | "postgres") => ({
  test: {
    name,
    include: onBothStorages,
    exclude: [inTheBrowser, ...(name === "embedded" ? onPostgresOnly : onEmbeddedOnly)],
    globalSetup: ["test/support/global-setup.ts"],
    env: { TEST_STORAGE: name },
    // Not isolated, a file's modules serve the next one: half of what a file costs, and nothing gained on embedded storage.
    // No test mocks a module or keeps state in one.
    isolate: name === "embedded",
    // PGlite is WebAssembly. Compiling it a second time, better optimized, costs a short life more than it gains.
    execArgv: name === "embedded" ? ["--liftoff-only"] : [],
    expect: expecting,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});

export default defineConfig({
  test: {
    maxWorkers: 2,
    reporters: ["default", closingLine],
    projects: [
      {
        test: {
          name: "unit",
          include: ["test/{unit,attacks}/**/*.test.ts"],
          exclude: [attacksOnRows],
          isolate: false,
          expect: expecting,
          testTimeout: 60_000,
        },
      },
      { test: { name: "tidy", include: ["test/tidy.test.ts"], testTimeout: 60_000 } },
      storage("embedded"),
      storage("postgres"),
      {
        test: { ...storage("embedded").test, name: "console", include: [inTheBrowser], exclude: [], maxConcurrency: 3 },
      },
    ],
  },
});
