import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files of the last projects that take longest: begun last, one of them would run alone at the end. */
const LONGEST = [
  "test/attacks/safety-obedient.test.ts",
  "test/attacks/safety-scaling.test.ts",
  "test/unit/models/large-vectors.test.ts",
  "test/journeys/bench.test.ts",
  "test/api/bad-input.test.ts",
];

/** Vitest's order, by project and within it the longest or largest file first, after the longest of all. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => LONGEST.some((file) => moduleId.endsWith(file));
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
