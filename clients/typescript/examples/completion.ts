import { createClient } from "@purser/client";

const { PURSER: baseUrl = "", KEY: apiKey = "" } = process.env;
const purser = createClient({ baseUrl, apiKey });
const body = { model: "auto", messages: [{ role: "user" as const, content: "Say: hello" }] };

const answer = await purser.post("/api/v1/chat/completions", { body });
console.log(answer.choices[0]?.message.content);

let text = "";
for await (const { data } of purser.stream("/api/v1/chat/completions", { body })) {
  text += data.choices[0]?.delta.content ?? "";
  if (data.usage) console.log(`${text}: ${data.usage.cost_tokens} tokens`);
}
