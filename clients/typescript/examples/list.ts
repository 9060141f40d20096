import { createClient } from "@purser/client";

const { PURSER: baseUrl = "", KEY: apiKey = "" } = process.env;
const purser = createClient({ baseUrl, apiKey });

for (const name of ["first", "second", "third"]) {
  await purser.post("/api/v1/agents", { body: { name, model_id: "purser/rehearsal" } });
}
const names: string[] = [];
for await (const agent of purser.items("/api/v1/agents", { query: { limit: 2 } })) names.push(agent.name);
console.log(names.join(", "));
