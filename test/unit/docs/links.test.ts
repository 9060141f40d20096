import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";

const files = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], { encoding: "utf8" })
  .trim()
  .split("\n")
  .filter((file) => existsSync(file) && !file.startsWith("training/pages/"));
const text = (file: string) => readFileSync(file, "utf8");

/** The anchors that GitHub gives to the headings of a page. */
const anchors = (page: string) =>
  [...text(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );

it("every link of a document to a file of the repository leads to a file and a heading that exist", () => {
  const links = files
    .filter((file) => file.endsWith(".md"))
    .flatMap((file) =>
      [
        ...text(file)
          .replaceAll(/^```.*?^```/gms, "")
          .matchAll(/\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]*))?\)/g),
      ].map(([, path, anchor]) => ({ file, anchor, target: path ? join(dirname(file), path) : file })),
    );
  expect(links.length).toBeGreaterThan(100);
  const broken = links.filter(
    ({ target, anchor }) =>
      !existsSync(target) || (anchor !== undefined && target.endsWith(".md") && !anchors(target).includes(anchor)),
  );
  expect(broken).toEqual([]);
});

it("every document that source, tests and scripts name exists", () => {
  const named = files
    .filter((file) => /\.(ts|tsx|sql|sh|ya?ml)$/.test(file))
    .flatMap((file) => (text(file).match(/\bdocs\/[\w./-]+\.md\b/g) ?? []).map((target) => ({ file, target })));
  expect(named.filter(({ target }) => !existsSync(target))).toEqual([]);
});

it("every file of the project that a document names by its path exists", () => {
  const paths = /(?<![\w./])(?:src|test|console|deploy|migrations|bench|training|demo)\/[\w./-]+\.\w+/g;
  const named = files
    .filter((file) => file.endsWith(".md") && !file.startsWith("docs/history/"))
    .flatMap((file) => (text(file).match(paths) ?? []).map((target) => ({ file, target })));
  expect(named.length).toBeGreaterThan(50);
  expect(named.filter(({ target }) => !existsSync(target))).toEqual([]);
});
