import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { backoff } from "../../../src/platform/lib/retry.ts";

const root = join(import.meta.dirname, "../../..");

describe("backoff", () => {
  it("makes each pause four times the one before, up to the longest", () => {
    expect(backoff({ first: 100, max: 5_000, retries: 4 })).toEqual([100, 400, 1_600, 5_000]);
    expect(backoff({ first: 500, max: 2_000, retries: 2 })).toEqual([500, 2_000]);
  });

  it("has one pause for each retry", () => {
    expect(backoff({ first: 5, max: 5, retries: 3 })).toEqual([5, 5, 5]);
    expect(backoff({ first: 5, max: 5, retries: 0 })).toEqual([]);
  });

  it("is the only source of growing pauses in src", () => {
    const files = execFileSync("git", ["ls-files", "src/*.ts"], { cwd: root, encoding: "utf8" }).trim().split("\n");
    const listed = /^(export )?const \w+_(MS|S|SECONDS)\b[^=]*= \[[\d_, ]+\]/m;
    const doubled = /(pause|delay|wait|backoff)\w* (\*= \d|= \w+ \* 2\b)/;
    const own = files.filter((file) => {
      const text = readFileSync(join(root, file), "utf8");
      return listed.test(text) || doubled.test(text);
    });
    expect(own).toEqual([]);
  });
});
