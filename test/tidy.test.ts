import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, it } from "vitest";
import { toolsConfigSchema } from "../src/api/contract/tools.ts";

// Rules of the code, kept by a test (CONTRIBUTING.md says why each is there).

const root = join(import.meta.dirname, "..");
const files = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], { cwd: root, encoding: "utf8" })
  .split("\n")
  .filter((file) => file !== "" && existsSync(join(root, file)));
const text = (file: string) => readFileSync(join(root, file), "utf8");
const source = files.filter((file) => file.startsWith("src/") && file.endsWith(".ts"));

/**
 * The folders of src from top to bottom. A file imports only from its own folder and from lower ones, so the list is also
 * the order in which to read them, and no cycle of folders is possible.
 */
const FOLDERS = [
  "cli",
  "app",
  "config",
  "operator",
  "operator/export",
  "operator/backup",
  "agents/mcp",
  "agents/triggers",
  "agents/chat",
  "agents/definitions",
  "agents/runs",
  "agents/tools",
  "agents/schedules",
  "gateway/responses",
  "gateway/messages",
  "gateway/completions",
  "gateway/models",
  "gateway/limits",
  "account/requests",
  "account/billing",
  "account/users",
  "account/ledger",
  "account/notices",
  "vault",
  "safety",
  "safety/judging",
  "safety/reading",
  "api/http",
  "api/contract",
  "platform/net",
  "platform/db",
  "platform/telemetry",
  "platform/lib",
  "kernel",
];
/** Top folders of the wiring, which import every module's routes and stores. */
const WIRING = new Set(["cli", "app"]);

interface Import {
  file: string;
  target: string;
}

function importsOf(file: string): Import[] {
  const found = text(file).matchAll(/(?:from|import)\s*\(?\s*"(\.{1,2}\/[^"]+)"/g);
  return [...found].map((match) => ({ file, target: join(dirname(file), match[1] ?? "") }));
}

const folderOf = (file: string) => relative("src", dirname(file)).replace(/\/sql$/, "");
const inFolder = (file: string, folder: string) => folderOf(file).split("/")[0] === folder;

describe("the modules", () => {
  it("has every folder in its list", () => {
    expect([...new Set(source.map(folderOf))].sort()).toEqual([...FOLDERS].sort());
  });

  it("imports only downward", () => {
    const upward = source
      .flatMap(importsOf)
      .filter(({ file, target }) => FOLDERS.indexOf(folderOf(target)) < FOLDERS.indexOf(folderOf(file)));
    expect(upward).toEqual([]);
  });

  it("imports no other module's store or routes", () => {
    const wrong = source
      .filter((file) => !WIRING.has(folderOf(file)))
      .flatMap(importsOf)
      .filter(({ file, target }) => folderOf(file) !== folderOf(target) && /\.(store|routes)\.ts$/.test(target));
    expect(wrong).toEqual([]);
  });

  it("lets no module that uses tools ask for a tool's name", () => {
    const names = Object.keys(toolsConfigSchema.shape);
    expect(names).not.toEqual([]);
    // Only modules that may import tools: elsewhere a tool's name may be an ordinary word.
    const asking = source.filter((file) => inFolder(file, "agents") && folderOf(file) !== "agents/tools");
    const asks = new RegExp(`(["'\`])(${names.join("|")})\\1|config\\??\\.(${names.join("|")})\\b`);
    const code = (file: string) => text(file).replace(/^\s*(\/\/|\*|\/\*).*$/gm, "");
    expect(asking).not.toEqual([]);
    expect(asking.filter((file) => asks.test(code(file)))).toEqual([]);
  });

  it("has no import cycle", () => {
    const graph = new Map(source.map((file) => [file, importsOf(file).map(({ target }) => target)]));
    const state = new Map<string, "open" | "done">();
    const cycles: string[] = [];
    const visit = (file: string, path: string[]): void => {
      if (state.get(file) === "done") return;
      if (state.get(file) === "open") {
        cycles.push([...path.slice(path.indexOf(file)), file].join(" → "));
        return;
      }
      state.set(file, "open");
      for (const target of graph.get(file) ?? []) visit(target, [...path, file]);
      state.set(file, "done");
    };
    for (const file of source) visit(file, []);
    expect(cycles).toEqual([]);
  });

  it("loads at a start nothing that only some nodes need: the detector, charsets, mail, payments, MCP, providers' SDKs", () => {
    const loaded = new Set<string>();
    const load = (name: string): void => {
      if (loaded.has(name)) return;
      loaded.add(name);
      if (!name.startsWith("src/")) return;
      for (const [, target = ""] of text(name).matchAll(/^(?:import|export) (?!type )[^;]*?from "([^"]+)";$/gm)) {
        load(target.startsWith(".") ? join(dirname(name), target) : target);
      }
    };
    load("src/app/app.ts");
    expect([...loaded]).toContain("src/safety/sanitizer.ts");
    const rare =
      /^src\/safety\/(judging|reading)\/|^(stripe|nodemailer|htmlparser2|html-encoding-sniffer|file-type)$|^@exodus\/|^@(ai-sdk|modelcontextprotocol)\//;
    expect([...loaded].filter((name) => rare.test(name))).toEqual([]);
  });

  it("keeps SQL in stores, migrations and the database adapters", () => {
    const sql = /\b(select\s+[\w*(][^;]*\bfrom\b|insert\s+into|update\s+\w+\s+set|delete\s+from)\b/i;
    const allowed = (file: string) => file.endsWith(".store.ts") || file.startsWith("src/platform/");
    const wrong = source.filter(
      (file) => !allowed(file) && sql.test(text(file).replace(/^\s*(\/\/|\*|\/\*).*$/gm, "")),
    );
    expect(wrong).toEqual([]);
  });
});

describe("the SQL files", () => {
  const sql = files.filter((file) => /^src\/.*\/sql\/[^/]+\.sql$/.test(file));
  const code = (file: string) => text(file).replace(/--.*$/gm, "");
  const functions = new Map(
    sql.flatMap((file) => {
      const name = /^create or replace function (\w+)/m.exec(text(file))?.[1];
      return name === undefined ? [] : [[name, folderOf(file)] as const];
    }),
  );
  const isFunction = (file: string) => /^create or replace function/m.test(text(file));

  it("each begin with the reason for their existence", () => {
    expect(sql.filter((file) => !text(file).startsWith("-- "))).toEqual([]);
  });

  it("hold every statement of more than 15 lines", () => {
    const wrong = source.flatMap((file) => {
      const statements = text(file)
        .replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "")
        .matchAll(/`(?=\s*(?:with|select|insert|update|delete)\b)[^`]*`/gi);
      return [...statements]
        .map(([sql]) => sql.split("\n").length)
        .filter((lines) => lines > 15)
        .map((lines) => `${file}: ${lines}`);
    });
    expect(wrong).toEqual([]);
  });

  it("hold functions that call only functions of their own module", () => {
    const wrong = sql.filter(isFunction).flatMap((file) =>
      [...code(file).matchAll(/\b(\w+)\s*\(/g)]
        .map(([, name]) => name ?? "")
        .filter((name) => functions.has(name) && functions.get(name) !== folderOf(file))
        .map((name) => `${file}: ${name} of ${functions.get(name)}`),
    );
    expect(wrong).toEqual([]);
  });

  it("hold statements that call only functions of modules that their module may import", () => {
    const wrong = sql
      .filter((file) => !isFunction(file))
      .flatMap((file) =>
        [...code(file).matchAll(/\b(\w+)\s*\(/g)]
          .map(([, name]) => functions.get(name ?? "") ?? folderOf(file))
          .filter((to) => FOLDERS.indexOf(to) < FOLDERS.indexOf(folderOf(file)))
          .map((to) => `${file}: ${to}`),
      );
    expect(wrong).toEqual([]);
  });

  it("call nothing by a name in a string", () => {
    expect(sql.filter((file) => /\bexecute\s+(format|'|\w+\s*(using|;|\|\|))/i.test(code(file)))).toEqual([]);
  });

  it("name the columns in every insert", () => {
    const unnamed = /\binsert\s+into\s+\w+\s+(?!as\s+\w+\s*\(|\()/i;
    expect(sql.filter((file) => unnamed.test(code(file)))).toEqual([]);
  });
});

describe("the migrations", () => {
  const migrations = files.filter((file) => /^migrations\/\d{4}_\w+\.sql$/.test(file));

  it("hold no functions or triggers: these are in the modules", () => {
    expect(migrations.length).toBeGreaterThan(0);
    const defining = /^\s*(create|alter)\s+(or\s+replace\s+)?(function|procedure|trigger|type)\b/im;
    expect(migrations.filter((file) => defining.test(text(file)))).toEqual([]);
  });

  it("only expand, so that nodes of the previous release keep working, unless a line says why a change is safe", () => {
    const later = migrations.filter((file) => !file.startsWith("migrations/1000_"));
    const contracting =
      /\b(drop\s+(table|column|function)|rename\s+(to|column)|set\s+not\s+null|alter\s+column\s+\w+\s+(set\s+data\s+)?type)\b/i;
    const code = (file: string) => text(file).replace(/--.*$/gm, "");
    const unexplained = later.filter((file) => contracting.test(code(file)) && !/^-- contract: /m.test(text(file)));
    expect(unexplained).toEqual([]);
  });

  it("build indexes of large tables by themselves, each in the file of its name, while nodes write", () => {
    const indexes = files.filter((file) => file.startsWith("migrations/indexes/"));
    const ofFile = (file: string) =>
      new RegExp(`^(--.*\\n)+create index concurrently if not exists ${file.slice(19, -4)} on [^;]+;\\n$`);
    expect(indexes.filter((file) => !ofFile(file).test(text(file)))).toEqual([]);
  });

  it("give the reason for each table in a comment above it", () => {
    const silent = migrations.flatMap((file) =>
      [...text(file).matchAll(/(.*)\ncreate table (\w+)/g)]
        .filter(([, before]) => !before?.startsWith("--"))
        .map(([, , table]) => `${file}: ${table}`),
    );
    expect(silent).toEqual([]);
  });
});

describe("the style", () => {
  it("takes time from the platform only, and randomness from node:crypto", () => {
    const wrong = source.filter(
      (file) =>
        !file.startsWith("src/platform/") && /\bDate\.now\(|\bnew Date\(|Math\.random\(|Temporal\.Now/.test(text(file)),
    );
    expect(wrong).toEqual([]);
  });

  it("has no class but errors and SecretValue", () => {
    const classes = source.flatMap((file) =>
      [...text(file).matchAll(/^\s*(?:export )?class (\w+)/gm)].map((match) => `${file}: ${match[1]}`),
    );
    expect(classes.filter((name) => !/(Error|SecretValue|Refused|DurableFS)$/.test(name))).toEqual([]);
  });

  it("reveals a secret's value in the platform only, where it is sent", () => {
    const wrong = source.filter((file) => !file.startsWith("src/platform/") && /\.reveal\(/.test(text(file)));
    expect(wrong).toEqual([]);
  });

  it("has no barrel and no default export", () => {
    const wrong = source.filter(
      (file) => /(^|\/)index\.ts$/.test(file) || /^export (\* from|default)/m.test(text(file)),
    );
    expect(wrong).toEqual([]);
  });

  it("writes an object's fields directly, without spreading an object literal", () => {
    const code = files.filter((file) => /^(src|test|bench|demo|console)\/.*\.tsx?$/.test(file));
    expect(code.filter((file) => /\.\.\.\{/.test(text(file)))).toEqual([]);
  });

  it("uses the field's terms: transaction hook, token bucket, retry, notice mappers", () => {
    const old = /(?<!ove|Ove)[rR]ider|createAllowance|createInsist|\binsistent\b|\boccasions\.ts\b/;
    const named = files.filter((file) => /^src\/.*\.(ts|sql|md)$/.test(file));
    expect(named.filter((file) => old.test(text(file)))).toEqual([]);
  });

  it("has a docstring on every export of a service or a pure file", () => {
    const documented = source.filter(
      (file) =>
        !/\.(routes|store|types|adapter|worker)\.ts$/.test(file) &&
        !WIRING.has(folderOf(file)) &&
        !["config", "kernel", "api/contract"].includes(folderOf(file)),
    );
    const bare = documented.flatMap((file) => {
      const lines = text(file).split("\n");
      return lines.flatMap((line, index) => {
        const match = /^export (?:async )?function (\w+)/.exec(line);
        return match !== null && !/\*\/\s*$/.test(lines[index - 1] ?? "") ? [`${file}: ${match[1]}`] : [];
      });
    });
    expect(bare).toEqual([]);
  });

  it("cites only sections and clauses that docs/contract.md has", () => {
    const contract = text("docs/contract.md");
    const numbers = new Set([...contract.matchAll(/^(?:## )?(\d+(?:\.\d+)*)[. ]/gm)].map((match) => match[1]));
    const citing = files.filter((file) => /\.(ts|tsx|sql|md)$/.test(file));
    const wrong = citing.flatMap((file) =>
      [...text(file).matchAll(/\bcontract,? (?:sections? )?(\d+(?:\.\d+)*)/gi)]
        .filter((match) => !numbers.has(match[1]))
        .map((match) => `${file}: ${match[0]}`),
    );
    expect(wrong).toEqual([]);
  });

  it("names no folder of the machine it is on, and no registry", () => {
    const texts = files.filter((file) => /\.(ts|md|json|sql|ya?ml)$|^\.ci\/run$/.test(file));
    expect(texts.filter((file) => text(file).includes(root))).toEqual([]);
    expect(text("package-lock.json")).not.toMatch(/"resolved": "\w+:/);
  });

  it("pins every dependency to one version, so that an install has the tested versions", () => {
    const { dependencies, devDependencies, optionalDependencies, overrides } = JSON.parse(text("package.json"));
    const all = Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies, ...overrides });
    expect(all.filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(String(version)))).toEqual([]);
  });

  it("skips no test, and mocks no module: test files share their modules", () => {
    const wrong = files.filter(
      (file) =>
        file.endsWith(".test.ts") &&
        file !== "test/tidy.test.ts" &&
        /\b(it|describe|test)\.(only|skip|todo)\b|\bvi\.(mock|doMock|resetModules)\b/.test(text(file)),
    );
    expect(wrong).toEqual([]);
  });
});
