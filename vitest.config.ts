import { defineConfig } from "vitest/config";
import { closingLine } from "./test/support/closing-line.ts";

const attacksOnRows = "test/attacks/vault-*.test.ts";
const onBothStorages = ["test/{api,journeys,properties}/**/*.test.ts", attacksOnRows];
/** The console's journeys, in a real browser: once is enough, on embedded storage. */
const inTheBrowser = "test/journeys/console*.test.ts";
/** What does not reach as far as storage, or in nothing that the two do differently: once is enough, on embedded storage. */
const onOneStorage = [
  "test/api/{clients-*,chat-openai-client,malformed-requests,sign-in-limits,sign-in-origin,auto-route,request-limits}.test.ts",
  "test/journeys/{docs,denial-of-service}.test.ts",
];
/** A condition without a time of its own is waited for; one that promises a time names it. */
const expecting = { poll: { timeout: 10_000 } };
const storage = (name: "embedded" | "postgres") => ({
  test: {
    name,
    include: onBothStorages,
    exclude: name === "embedded" ? [inTheBrowser] : [inTheBrowser, ...onOneStorage],
    globalSetup: ["test/support/global-setup.ts"],
    env: { TEST_STORAGE: name },
    // Not isolated, a file's modules serve the next one: half of what a file costs, and nothing gained on embedded storage.
    // No test mocks a module or keeps state in one.
    isolate: name === "embedded",
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
      { test: { name: "tidy", include: ["test/tidy.test.ts"] } },
      storage("embedded"),
      storage("postgres"),
      {
        test: { ...storage("embedded").test, name: "console", include: [inTheBrowser], exclude: [], maxConcurrency: 3 },
      },
    ],
  },
});
