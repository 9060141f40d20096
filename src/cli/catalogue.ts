import { readFileSync, statSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { CATALOGUE, parseCatalogue } from "../gateway/models/catalogue.ts";
import { catalogueOfModelsDev } from "../gateway/models/models-dev.ts";
import { BUILT_IN_PROVIDERS } from "../gateway/models/providers.ts";

/**
 * `npm run catalogue -- --from FILE`: converts the api.json of models.dev to a catalogue file for PURSER_CONFIG. Exit 0:
 * written; 1: the file cannot be used; 2: an argument cannot be used.
 */

const USAGE =
  "npm run -s catalogue -- --from api.json [--to catalogue.json] [--provider NAME]…; NAME: a provider's name at models.dev and here";

function main(): void {
  const { from, to, providers } = readArguments();
  const names = providers.length > 0 ? providers : BUILT_IN_PROVIDERS.map(({ name }) => name);
  const as_of = statSync(from).mtime.toISOString().slice(0, 10);
  const { models, skipped } = catalogueOfModelsDev(readFileSync(from, "utf8"), {
    providers: names,
    as_of,
    known: CATALOGUE,
  });
  const text = `${JSON.stringify({ models }, null, 2)}\n`;
  parseCatalogue(text);
  for (const { id, reason } of skipped) process.stderr.write(`skipped ${id}: ${reason}\n`);
  if (to === undefined) process.stdout.write(text);
  else writeFileSync(to, text);
  process.stderr.write(`${models.length} models of ${names.join(", ")}; ${skipped.length} skipped\n`);
}

function readArguments(): { from: string; to: string | undefined; providers: string[] } {
  try {
    const { values } = parseArgs({
      options: {
        from: { type: "string" },
        to: { type: "string" },
        provider: { type: "string", multiple: true, default: [] },
      },
    });
    if (values.from === undefined) throw new Error("--from is missing");
    return { from: values.from, to: values.to, providers: values.provider };
  } catch (error) {
    process.stderr.write(`${(error as Error).message}; usage: ${USAGE}\n`);
    process.exit(2);
  }
}

try {
  main();
} catch (error) {
  process.stderr.write(`The catalogue was not written: ${(error as Error).message}\n`);
  process.exitCode = 1;
}
