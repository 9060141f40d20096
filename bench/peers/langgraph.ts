import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ServerProcess, startServer } from "../support/processes.ts";

const PACKAGES = [
  "@langchain/langgraph@1.4.13",
  "@langchain/langgraph-checkpoint@1.1.5",
  "@langchain/langgraph-checkpoint-postgres@1.0.5",
  "@langchain/core@1.2.13",
  "zod@4",
];

/** A graph of one node that calls the model; each request is a thread of its own, each step is checkpointed. */
const SERVER = `
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";

const [, , origin, database_url] = process.argv;
const checkpointer = PostgresSaver.fromConnString(database_url);
await checkpointer.setup();
const State = Annotation.Root({ messages: Annotation({ reducer: (a, b) => a.concat(b), default: () => [] }) });
const graph = new StateGraph(State)
  .addNode("model", async ({ messages }) => {
    const body = JSON.stringify({ model: "instant", messages });
    const headers = { "content-type": "application/json" };
    const answer = await fetch(origin + "/v1/chat/completions", { method: "POST", headers, body });
    return { messages: [(await answer.json()).choices[0].message] };
  })
  .addEdge(START, "model")
  .addEdge("model", END)
  .compile({ checkpointer });
const server = createServer(async (request, response) => {
  request.resume();
  try {
    const configurable = { thread_id: randomUUID() };
    const { messages } = await graph.invoke({ messages: [{ role: "user", content: "go" }] }, { configurable });
    response.end(JSON.stringify(messages.at(-1)));
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
});
server.listen(0, "127.0.0.1", 4096, () => console.log("listening on http://127.0.0.1:" + server.address().port));
`;

/** Installs LangGraph into a temporary folder and starts a server over it. Throws when the registry cannot be reached. */
export async function startLangGraph(upstream_url: string, database_url: string): Promise<ServerProcess> {
  const folder = mkdtempSync(join(tmpdir(), "langgraph-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    const quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--legacy-peer-deps"];
    execFileSync("npm", ["install", "--prefix", folder, ...quiet, ...PACKAGES], { stdio: "ignore", timeout: 180_000 });
    const main = join(folder, "server.mjs");
    writeFileSync(main, SERVER);
    const command = [process.execPath, main, upstream_url, database_url];
    const server = await startServer(command, { core: "service", cwd: folder });
    const stop = () => server.kill().finally(remove);
    return { ...server, stop, kill: stop };
  } catch (error) {
    remove();
    throw error;
  }
}
