import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describedApi } from "../../docs/reference.ts";

// Generates the types of this version's API, and compiles the client to `dist` and its examples without output. The
// generator needs TypeScript 5, which npm installs in this folder. `npm run types` and `npm pack` here run it.

const folder = import.meta.dirname;
const document = join(folder, "openapi.json");
const run = (tool: string, ...args: string[]) =>
  execFileSync(join(folder, "node_modules/.bin", tool), args, {
    cwd: folder,
    // The generator tells its progress there, and tsc its errors.
    stdio: ["ignore", tool === "tsc" ? "inherit" : "ignore", "inherit"],
  });

rmSync(join(folder, "dist"), { recursive: true, force: true });
writeFileSync(document, JSON.stringify(await describedApi()));
run("openapi-typescript", document, "--output", "src/openapi.ts");
run("tsc");
run("tsc", "--project", "examples");
