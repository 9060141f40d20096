import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ADMIN_KEY, type Client, type Service, startService } from "../support/service.ts";

let service: Service;
let user: Client;
beforeAll(async () => {
  service = await startService();
  user = await service.newUser();
});
afterAll(() => service.stop());

const COMPLETION = { model: "purser/rehearsal", messages: [{ role: "user", content: "hi" }] };

describe("a body", () => {
  it.each(["application/json ; charset=utf-8", "application/x2+json", "APPLICATION/JSON;x=y"])(
    "of type %s is read as JSON",
    async (type) => {
      const answer = await user.post("/api/v1/chat/completions", COMPLETION, { "Content-Type": type });
      expect(answer.status).toBe(200);
    },
  );
});

it("the operator's key opens as a bearer key only", async () => {
  const status = async (Authorization: string) =>
    (await fetch(`${service.url}/api/v1/admin/users`, { headers: { Authorization } })).status;
  expect(await status(`bearer ${ADMIN_KEY}`)).toBe(200);
  for (const other of [ADMIN_KEY, `Basic ${ADMIN_KEY}`, `Bearer ${ADMIN_KEY} x`, "Bearer "]) {
    expect(await status(other)).toBe(401);
  }
});
