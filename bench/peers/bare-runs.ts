import { createServer } from "node:http";
import pg from "pg";
import { Agent } from "undici";

/**
 * The minimum of a durable agent run on Node, as a baseline. It commits the run's row before the model call, and the
 * run with its step afterwards; rows that arrive during a commit share the next batch. It checks no key and prices
 * nothing. `node bare-runs.ts UPSTREAM_ORIGIN DATABASE_URL`
 */

const [, , origin = "", database_url = ""] = process.argv;
const connections = new Agent();
const pool = new pg.Pool({ connectionString: database_url, max: 4 });
await pool.query(`
  create table run (id bigint primary key, status text not null, input text not null, output text);
  create table step (run_id bigint not null, index integer not null, result text not null, primary key (run_id, index));
`);

/** One statement at a time. Rows that arrive meanwhile go into the next one. */
function batched<Item>(write: (items: Item[]) => Promise<unknown>): (item: Item) => Promise<void> {
  let waiting: { item: Item; done(): void; failed(error: unknown): void }[] = [];
  let busy = false;
  const next = async (): Promise<void> => {
    if (busy || waiting.length === 0) return;
    busy = true;
    const batch = waiting;
    waiting = [];
    try {
      await write(batch.map(({ item }) => item));
      for (const { done } of batch) done();
    } catch (error) {
      for (const { failed } of batch) failed(error);
    }
    busy = false;
    void next();
  };
  return (item) =>
    new Promise((done, failed) => {
      waiting.push({ item, done, failed });
      void next();
    });
}

const begin = batched<number>((ids) =>
  pool.query({
    name: "begin",
    text: "insert into run select id, 'running', 'go' from unnest($1::bigint[]) as id",
    values: [ids],
  }),
);
const finish = batched<{ id: number; output: string }>((runs) =>
  pool.query({
    name: "finish",
    text: `with done as (
        update run set status = 'succeeded', output = given.output
        from unnest($1::bigint[], $2::text[]) as given(id, output) where run.id = given.id returning run.id, run.output
      ) insert into step select id, 0, output from done`,
    values: [runs.map(({ id }) => id), runs.map(({ output }) => output)],
  }),
);

let count = 0;
const body = JSON.stringify({ model: "instant", messages: [{ role: "user", content: "go" }], stream: true });
const server = createServer(async (request, response) => {
  request.resume();
  count += 1;
  const id = count;
  await begin(id);
  const headers = { "content-type": "application/json" };
  const answer = await connections.request({ origin, path: "/v1/chat/completions", method: "POST", headers, body });
  await finish({ id, output: await answer.body.text() });
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ id, status: "succeeded" }));
});
server.listen(0, "127.0.0.1", 4096, () => {
  const address = server.address();
  if (address !== null && typeof address === "object") console.log(`listening on http://127.0.0.1:${address.port}`);
});
