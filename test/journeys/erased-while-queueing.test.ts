import pg from "pg";
import { expect, test } from "vitest";
import { newId } from "../../src/platform/lib/ids.ts";
import { LAB_MODELS, startLab } from "../support/lab.ts";
import { waitingForLocks } from "../support/postgres-server.ts";

test("a run that is queued during its user's erasure is deleted with the user", async ({ skip, onTestFinished }) => {
  const lab = await startLab(LAB_MODELS);
  onTestFinished(() => lab.stop());
  const { database_url } = lab.service.database;
  if (database_url === null) return skip("embedded storage has one connection");
  const user = await lab.service.newUser({ trial: false, tokens: 1_000 });
  const made = await user.post("/api/v1/agents", { name: "Scout", model_id: "lab/plain", run_prompt: "Look." });
  // The statement by which another node queues a run-now.
  const node = new pg.Client(database_url);
  await node.connect();
  try {
    await node.query("begin");
    await node.query("select from agent where id = $1 for key share", [made.body.id]);
    const erased = lab.service.admin.request("DELETE", `/api/v1/admin/users/${user.user_id}`);
    await expect.poll(async () => (await waitingForLocks(database_url)).length).toBeGreaterThan(0);
    await node.query(
      `insert into run (user_id, id, agent_id, agent_version, trigger, queued_at, engine_input, priority)
        values ($1, $2, $3, 1, 'manual', now(), '{}', 1)`,
      [user.user_id, newId(), made.body.id],
    );
    await node.query("commit");
    expect((await erased).status).toBe(204);
    expect((await node.query("select from run where user_id = $1", [user.user_id])).rowCount).toBe(0);
  } finally {
    await node.end();
  }
});
