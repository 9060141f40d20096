import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { PLACEHOLDER_KEY, snippetsOf } from "../../../console/src/client-snippets.ts";

const guide = readFileSync("docs/guides/clients.md", "utf8");
const snippets = snippetsOf({ url: "https://purser.example.com", key: PLACEHOLDER_KEY, model: "auto" });

test.each(snippets)("the guide for clients has every text of the console's page Connect: $title", (snippet) => {
  const section = guide.split(/^## /m).find((each) => each.startsWith(`${snippet.title}\n`)) ?? "";
  expect(section).toContain(snippet.note);
  const fences = [...section.matchAll(/^```(\w+)\n(.*?)\n```$/gms)].map(([, language, text]) => ({ language, text }));
  expect(fences).toEqual(snippet.blocks.map(({ language, text }) => ({ language, text })));
});
