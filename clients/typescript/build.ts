import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describedApi } from "../../docs/reference.ts";

// Generates the types of this version's API and compiles the client to `dist`. The generator needs TypeScript 5, so it is
// installed in this folder: `npm ci && npm pack` here, after `npm ci` in the project.

const folder = import.meta.dirname;
const document = join(folder, "openapi.json");
const run = (tool: string, ...args: string[]) =>
  execFileSync(join(folder, "node_modules/.bin", tool), args, { cwd: folder, stdio: "inherit" });

rmSync(join(folder, "dist"), { recursive: true, force: true });
writeFileSync(document, JSON.stringify(await describedApi()));
run("openapi-typescript", document, "--output", "src/openapi.ts");
run("tsc");
run("tsc", "--project", "examples");
