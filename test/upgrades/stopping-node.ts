import { migrate } from "../../src/platform/migrate.ts";
import { openRaw } from "./raw-source.ts";

// A node that stops just before it commits an upgrade: `node stopping-node.ts <data_dir> [<database_url>]`. A test kills it.

const [data_dir = "", database_url = null] = process.argv.slice(2);
const { connection } = await openRaw({ data_dir, database_url });
const keepAlive = setInterval(() => {}, 1_000);
const query: typeof connection.query = (statement) => {
  if (statement.text !== "commit") return connection.query(statement);
  process.stdout.write("before the commit\n");
  return new Promise(() => keepAlive);
};
await migrate({ connect: async () => ({ ...connection, query }) });
