import type { Reporter } from "vitest/node";

/** Prints the totals alone on the last line, "3655 passed, 0 failed, 28 skipped", for programs that cannot read vitest's summary. */
export const closingLine: Reporter = {
  onTestRunEnd(modules) {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const count = (state: string) => tests.filter((test) => test.result().state === state).length;
    process.stdout.write(`${count("passed")} passed, ${count("failed")} failed, ${count("skipped")} skipped\n`);
  },
};
