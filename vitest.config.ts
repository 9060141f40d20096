import { defineConfig } from "vitest/config";

const onBothStorages = ["test/{api,journeys,properties}/**/*.test.ts"];
const storage = (name: "embedded" | "postgres") => ({
  test: {
    name,
    include: onBothStorages,
    globalSetup: ["test/support/global-setup.ts"],
    env: { TEST_STORAGE: name },
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});

export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      { test: { name: "unit", include: ["test/{unit,attacks}/**/*.test.ts"], testTimeout: 60_000 } },
      { test: { name: "tidy", include: ["test/tidy.test.ts"] } },
      storage("embedded"),
      storage("postgres"),
    ],
  },
});
