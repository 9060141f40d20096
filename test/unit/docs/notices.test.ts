import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { NOTICE_EVENTS } from "../../../src/api/contract/notices.ts";

const sorted = (names: Iterable<string>) => [...names].sort();

it("docs/guides/developers.md has a row for each notice", () => {
  const guide = readFileSync("docs/guides/developers.md", "utf8");
  const rows = [...guide.matchAll(/^\| `(\w+\.\w+)` \|/gm)].map(([, event]) => event ?? "");
  expect(sorted(rows)).toEqual(sorted(NOTICE_EVENTS));
});
