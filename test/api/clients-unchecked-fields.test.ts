import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";

// Responses and Messages become chat completions. A field that only chat completions check must not avoid the check.

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab();
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});
afterAll(() => lab.stop());
beforeEach(() => {
  lab.upstream.requests = [];
});

const ENDPOINTS = {
  "/api/v1/responses": { model: "lab/plain", input: "hi" },
  "/api/v1/messages": { model: "lab/plain", max_tokens: 10, messages: [{ role: "user", content: "hi" }] },
};

describe.each(Object.entries(ENDPOINTS))("POST %s with a field of chat completions", (path, request) => {
  it.each([
    ["max_completion_tokens", -1],
    ["n", 0],
    ["n", -5],
    ["models", "z".repeat(100_000)],
    ["response_format", { type: "json_schema" }],
  ])("%s is rejected by name, and nothing is sent (attack: an answer beyond its hold)", async (field, value) => {
    const { status, body } = await user.post(path, { ...request, [field]: value });
    expect(status).toBe(400);
    expect(JSON.stringify(body)).toContain(field);
    expect(lab.upstream.requests).toEqual([]);
  });

  it("a field with the name of a property of every object is rejected by name (attack: constructor)", async () => {
    for (const field of ["constructor", "toString", "hasOwnProperty"]) {
      const { status, body } = await user.post(path, { ...request, [field]: 1 });
      expect([status, body.error.param]).toEqual([400, field]);
    }
  });
});
