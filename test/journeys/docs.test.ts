import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { codeBlocks, runShell } from "../support/guides.ts";
import { ADMIN_KEY, type Service, startService } from "../support/service.ts";

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

describe("examples in the docs", () => {
  it.each(DOCS)("%s: every shell example answers without an error", async (file) => {
    const commands = codeBlocks(file, "sh").map((block) =>
      block.replaceAll("https://purser.example.com", service.url).replaceAll("YOUR_API_KEY", key),
    );
    const stdout = await runShell(commands, { PURSER: service.url, KEY: key, PURSER_ADMIN_KEY: ADMIN_KEY });
    expect(stdout).not.toContain('"error":{');
    expect(stdout).toContain("{");
  });

  it("README.md: the TypeScript example prints the answer and its usage", async () => {
    const [example = ""] = codeBlocks("README.md", "ts");
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
