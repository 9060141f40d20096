import { defineConfig } from "vitest/config";
import { closingLine } from "./test/support/closing-line.ts";
import { LongestFirst } from "./test/support/longest-first.ts";
import { COMPILE_CACHE, FLAGS } from "./test/support/process.ts";

// What one process of the tests compiles serves the next one, as it serves the services that tests start.
process.env.NODE_COMPILE_CACHE = COMPILE_CACHE;

const attacksOnRows = "test/attacks/vault-*.test.ts";
const docsTests = "test/unit/docs/*.test.ts";
const onPostgres = ["test/{api,journeys,properties}/**/*.test.ts", attacksOnRows];
/** The console's journeys, in a real browser: once is enough, on embedded storage. */
const inTheBrowser = "test/journeys/console*.test.ts";
/**
 * Locks, transactions, the queue, kill -9, notifications, files and migrations differ between the storages, and run on
 * both. What sends both the same statements runs on PostgreSQL alone, which starts in a tenth of the time.
 */
const onEmbedded = [
  "test/{journeys,properties}/**/*.test.ts",
  "test/api/{billing-audit,upgrades}.test.ts",
  "test/attacks/vault-plaintext.test.ts",
];
const notOnEmbedded = [
  "test/journeys/{check,logs,notices-crash,run-lost,user-commands}.test.ts",
  "test/journeys/{drain,keys-across-nodes,killed-reasoning,revoked-streams,vault-keys}.test.ts",
  "test/properties/{ledger-reading,oauth-tokens,pricing-end-to-end,run-transitions}.test.ts",
  "test/properties/{unusable-servers,vault-key-service,vault-opening}.test.ts",
  "test/properties/{archive-alongside,ledger-archive,lost-answers,pruning,vault-rotation,waiting-schedules}.test.ts",
  // Nodes beside each other.
  "test/journeys/migrations.test.ts",
];
/** Examples for a newcomer's machine, attacks on one process, the move away and a release: on embedded storage only. */
const notOnPostgres = ["test/journeys/{docs,denial-of-service,behind-a-proxy,idle-database,move,release}.test.ts"];
/** A condition without a time of its own is waited for; one that promises a time names it. */
const expecting = { poll: { timeout: 60_000 } };
/** A busy machine starts processes and draws pages slowly, so only a test that hangs takes this long. */
const PATIENCE_MS = 300_000;
const common = {
  // Not isolated, a file's modules serve the next one: half of what a file costs. No test mocks a module or keeps state in one.
  isolate: false,
  // The same for all, because compiled modules serve only processes with the same flags.
  execArgv: FLAGS,
  expect: expecting,
  testTimeout: PATIENCE_MS,
  hookTimeout: PATIENCE_MS,
};
const storage = (name: "embedded" | "postgres") => ({
  test: {
    ...common,
    name,
    include: name === "embedded" ? onEmbedded : onPostgres,
    exclude: [inTheBrowser, ...(name === "embedded" ? notOnEmbedded : notOnPostgres)],
    globalSetup: ["test/support/global-setup.ts"],
    env: { TEST_STORAGE: name },
  },
});

export default defineConfig({
  test: {
    // Node runs the files by itself, as it runs the service: Vite's transform costs a tenth of the processor time.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    // The files wait for processes and browsers much of their time: two processors serve four of them.
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
    reporters: ["default", closingLine],
    projects: [
      {
        test: {
          ...common,
          name: "unit",
          include: ["test/{unit,attacks}/**/*.test.ts"],
          exclude: [attacksOnRows, docsTests],
        },
      },
      // What `npm run check` runs: the rules of the code, and documents that are generated or repeat a list of the code.
      { test: { ...common, name: "tidy", include: ["test/tidy.test.ts", docsTests] } },
      storage("embedded"),
      storage("postgres"),
      {
        test: { ...storage("embedded").test, name: "console", include: [inTheBrowser], exclude: [], maxConcurrency: 3 },
      },
    ],
  },
});
