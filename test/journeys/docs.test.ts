import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ADMIN_KEY, type Service, startService } from "../support/service.ts";

const root = join(import.meta.dirname, "../..");
const DOCS = [
  "README.md",
  "docs/guides/developers.md",
  "docs/guides/clients.md",
  "docs/guides/conversations.md",
  "docs/guides/routing.md",
  "docs/guides/people.md",
  "docs/guides/tools.md",
  "docs/operating/README.md",
];

let service: Service;
let key: string;
beforeAll(async () => {
  service = await startService({ env: { PURSER_PAYMENTS: "sandbox" } });
  key = (await service.newUser()).key;
});
afterAll(() => service.stop());

/** Code blocks of a language, in the order of the page, because later ones may use variables of earlier ones. */
function blocks(file: string, language: string): string[] {
  const found = readFileSync(join(root, file), "utf8").matchAll(
    new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm"),
  );
  return [...found].map((match) => match[1] ?? "");
}

describe("examples in the docs", () => {
  it.each(DOCS)("%s: every shell example answers without an error", async (file) => {
    const script = ["set -euo pipefail", ...blocks(file, "sh")]
      .join("\n")
      .replaceAll("https://purser.example.com", service.url)
      .replaceAll("YOUR_API_KEY", key);
    const env = { ...process.env, PURSER: service.url, KEY: key, PURSER_ADMIN_KEY: ADMIN_KEY };
    const { stdout } = await promisify(execFile)("bash", ["-c", script], { env });
    expect(stdout).not.toContain('"error":{');
    expect(stdout).toContain("{");
  });

  it("README.md: the TypeScript example prints the answer and its usage", async () => {
    const [example = ""] = blocks("README.md", "ts");
    const printed: unknown[] = [];
    const body = example
      .replace(/^import .*\n/m, "")
      .replaceAll("process.env", "env")
      .replace("console.log(", "print(");
    const run = new Function("OpenAI", "env", "print", `return (async () => { ${body} })()`);
    await run(OpenAI, { PURSER: service.url, KEY: key }, (...values: unknown[]) => printed.push(...values));
    expect(printed[0]).toBe("hello");
    expect(printed[1]).toMatchObject({ cost_tokens: expect.any(Number) });
  });
});
