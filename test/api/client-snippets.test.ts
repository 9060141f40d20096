import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { snippetsOf } from "../../console/src/client-snippets.ts";
import { charges, type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";

// The snippets of the console's page Connect and of the guide for clients, executed like a reader does. `npm run clients`
// executes those for Codex, Claude Code and opencode.

/** Scripts find the packages here. */
const ROOT = join(import.meta.dirname, "../..");
const BASH = ["bash", "-c"] as const;
const NODE = [process.execPath, "--input-type=module-typescript", "-e"] as const;

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab();
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});
afterAll(() => lab.stop());

const snippets = () => snippetsOf({ url: lab.service.url, key: user.key, model: "lab/plain" });

it.each(["curl", "typescript", "langchain", "anthropic", "ai-sdk"])(
  "the snippet for %s prints the model's answer, which is charged once",
  async (program) => {
    const [block] = snippets().find(({ id }) => id === program)?.blocks ?? [];
    const [command, ...args] = block?.language === "sh" ? BASH : NODE;
    const before = (await charges(user)).length;
    const { stdout } = await promisify(execFile)(command, [...args, block?.text ?? ""], { cwd: ROOT });
    expect(stdout).toContain("hello from upstream");
    expect((await charges(user)).length).toBe(before + 1);
  },
);

it("every snippet names this service and has the key or reads it from the environment", () => {
  for (const { id, blocks } of snippets()) {
    const text = blocks.map((block) => block.text).join("\n");
    expect(text, id).toContain(`${lab.service.url}/api`);
    expect(text, id).toContain(user.key);
    for (const { language, text } of blocks) if (language === "json") expect(() => JSON.parse(text)).not.toThrow();
  }
});
