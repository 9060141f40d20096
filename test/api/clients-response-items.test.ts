import { afterAll, beforeAll, expect, it } from "vitest";
import { type Lab, startLab } from "../support/lab.ts";

// Output items of the Responses API are stored encrypted, for a day, and deleted with their user (contract 4).

const START = "2026-11-01T00:00:00.000Z";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab(undefined, { env: { PURSER_TEST_CLOCK: START } });
});
afterAll(() => lab.stop());

it("an item is stored encrypted, can be referenced for 24 hours, and is erased with its user", async () => {
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const post = (input: unknown) => user.post("/api/v1/responses", { model: "lab/plain", input });
  const { output } = (await post("hello")).body;
  const refer = () => post([{ type: "item_reference", id: output[0].id }]);
  const db = await lab.service.database.open();
  const rows = () =>
    db.query<{ item: Uint8Array }>({
      text: "select item from response_item where user_id = $1",
      values: [user.user_id],
    });
  try {
    const [row] = await rows();
    expect(Buffer.from(row?.item ?? []).toString()).not.toContain("upstream");
    expect((await refer()).status).toBe(200);
    await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-11-02T00:00:01.000Z" });
    expect((await refer()).body.error.param).toBe("input[0].id");
    await lab.service.admin.request("DELETE", `/api/v1/admin/users/${user.user_id}`);
    expect(await rows()).toEqual([]);
  } finally {
    await db.close();
  }
});
