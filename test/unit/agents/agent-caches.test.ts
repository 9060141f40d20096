import { expect, it } from "vitest";
import { createAgentCache, createConfigCache } from "../../../src/agents/definitions/agent-caches.ts";
import type { AgentRow } from "../../../src/agents/definitions/agents.store.ts";

const MB = 1_048_576;
const agent = (id: string) => ({ user_id: "u", id, system_prompt: "x".repeat(4 * MB), tools_config: {} }) as AgentRow;

it("agents of 4 MB are cached up to 64 MB (attack: 1,000 of them fill the memory)", () => {
  const cache = createAgentCache();
  for (let n = 0; n < 100; n += 1) cache.keep(agent(`a${n}`));
  const kept = Array.from({ length: 100 }, (_, n) => cache.get("u", `a${n}`)).filter((each) => each !== undefined);
  expect(kept).toHaveLength(15);
});

it("configurations of 4 MB are cached up to 64 MB, and a cached one is not read again", async () => {
  let reads = 0;
  const version = async ({ agent_id }: { agent_id: string }) => {
    reads += 1;
    return { version: 1, config: agent(agent_id), created_at: "" };
  };
  const configOf = createConfigCache({ version } as never);
  const read = (n: number) => configOf({ user_id: "u", agent_id: `a${n}`, version: 1 });
  for (let n = 0; n < 20; n += 1) await read(n);
  await read(19);
  expect(reads).toBe(20);
  await read(0);
  expect(reads).toBe(21);
});
