import { defineConfig } from "vitest/config";
import { closingLine } from "./test/support/closing-line.ts";

const attacksOnRows = "test/attacks/vault-*.test.ts";
const onBothStorages = ["test/{api,journeys,properties}/**/*.test.ts", attacksOnRows];
/** The console's journeys, in a real browser: once is enough, on embedded storage. */
const inTheBrowser = "test/journeys/console*.test.ts";
const storage = (name: "embedded" | "postgres") => ({
  test: {
    name,
    include: onBothStorages,
    exclude: [inTheBrowser],
    globalSetup: ["test/support/global-setup.ts"],
    env: { TEST_STORAGE: name },
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
          testTimeout: 60_000,
        },
      },
      { test: { name: "tidy", include: ["test/tidy.test.ts"] } },
      storage("embedded"),
      storage("postgres"),
      { test: { ...storage("embedded").test, name: "console", include: [inTheBrowser], exclude: [] } },
    ],
  },
});
