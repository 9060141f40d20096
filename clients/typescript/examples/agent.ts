import { createClient, PurserError } from "@purser/client";

const { PURSER: baseUrl = "", KEY: apiKey = "" } = process.env;
const purser = createClient({ baseUrl, apiKey });

const agent = await purser.post("/api/v1/agents", {
  body: { name: "Greeter", model_id: "purser/rehearsal", run_prompt: "Say: good morning" },
});
const run = await purser.post("/api/v1/agents/{id}/runs", { path: { id: agent.id } });

const path = { id: agent.id, run_id: run.id };
for await (const { event, data } of purser.follow("/api/v1/agents/{id}/runs/{run_id}/events", { path })) {
  if (event === "run.finished") console.log(`${data.status}: ${data.output}`);
}

await purser.delete("/api/v1/agents/{id}", { path: { id: agent.id } });
try {
  await purser.get("/api/v1/agents/{id}", { path: { id: agent.id } });
} catch (error) {
  if (!(error instanceof PurserError)) throw error;
  console.log(`${error.status} ${error.code}`);
}
