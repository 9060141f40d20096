import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The slowest files of the last projects. If they began last, one of them would run alone at the end. */
const LONGEST = [
  "test/attacks/safety-obedient.test.ts",
  "test/attacks/safety-scaling.test.ts",
  "test/unit/models/large-vectors.test.ts",
  "test/journeys/bench.test.ts",
  "test/journeys/check.test.ts",
  "test/api/bad-input.test.ts",
];

/** Vitest's order by project. Within a project the files above come first, then slow or large files. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => LONGEST.some((file) => moduleId.endsWith(file));
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
