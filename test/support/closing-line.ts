import type { Reporter } from "vitest/node";

/** The run's figures alone on the last line, "3655 passed, 0 failed, 28 skipped": programs that do not know vitest's summary read this. */
export const closingLine: Reporter = {
  onTestRunEnd(modules) {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const count = (state: string) => tests.filter((test) => test.result().state === state).length;
    process.stdout.write(`${count("passed")} passed, ${count("failed")} failed, ${count("skipped")} skipped\n`);
  },
};
