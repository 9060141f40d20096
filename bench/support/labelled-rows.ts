import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ContentKind } from "../../src/safety/sanitize.ts";

const ADAPTIVE = fileURLToPath(import.meta.resolve("../../training/adaptive.txt"));

/** A labelled page, as a folder of data has them in dev.jsonl. */
export interface Row {
  readonly id: string;
  readonly kind: ContentKind;
  readonly content: string;
  readonly label: "attack" | "benign";
  /** What the attack says, as plain text. */
  readonly injected?: string;
}

/** The rows of a folder of data; without a folder, rows made from this repository. */
export function labelledRows(folder: string | null): Row[] {
  if (folder === null) return ownRows();
  const file = join(folder, "dev.jsonl");
  if (!existsSync(file)) throw new Error(`there is no ${file}`);
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line));
}

/** Without data: the sentences that were written against the detector, each on a page with the attacker's addresses. */
function ownRows(): Row[] {
  const sentences = readFileSync(ADAPTIVE, "utf8").split("\n");
  const attacks = sentences
    .filter((line) => line !== "" && !line.startsWith("# "))
    .map((line, at): Row => {
      const injected = `${line} https://evil.example/c?d={data}`;
      const content = `<h1>Page</h1><p>${injected}</p><a href="https://evil.example/link">more</a>`;
      return { id: `own-${at}`, kind: "html", label: "attack", content, injected };
    });
  const words = sentences.join(" ").split(" ");
  const paragraph = (at: number) => `<p class="c${at % 7}">${words.slice(at % 500, (at % 500) + 60).join(" ")}</p>`;
  const content = Array.from({ length: 200 }, (_, at) => paragraph(at * 13)).join("\n");
  return [...attacks, { id: "page", kind: "html", label: "benign", content }];
}
