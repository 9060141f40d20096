import { createHmac, randomUUID } from "node:crypto";
import { expect } from "vitest";
import type { Answer, Client } from "./service.ts";

/** A trigger that verifies deliveries as GitHub signs them, unless a test says otherwise. */
export interface TestTrigger {
  /** Its path in the API. */
  path: string;
  id: string;
  url: string;
  secret: string;
}

export async function newTriggeredAgent(user: Client, fields: object = {}): Promise<string> {
  const agent = { name: "Triage", model_id: "lab/plain", run_prompt: "Triage this.", ...fields };
  const made = await user.post("/api/v1/agents", agent);
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  return `/api/v1/agents/${made.body.id}`;
}

/** `agent`: its path; without it, a new one. */
export async function newTrigger(user: Client, fields: object = {}, agent?: string): Promise<TestTrigger> {
  const path = `${agent ?? (await newTriggeredAgent(user))}/triggers`;
  const made = await user.post(path, { name: "Issues", verify: "github", ...fields });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  const { id, url, secret } = made.body;
  return { path: `${path}/${id}`, id, url, secret };
}

export async function postHook(url: string, body: string, headers: Record<string, string> = {}): Promise<Answer> {
  const given = { "content-type": "application/json", ...headers };
  const response = await fetch(url, { method: "POST", body, headers: given });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

export const hexHmac = (secret: string, body: string) => createHmac("sha256", secret).update(body).digest("hex");

/** Posts a delivery as GitHub sends it. */
export function deliver(
  { url, secret }: Pick<TestTrigger, "url" | "secret">,
  body: object | string,
  { id = randomUUID() as string, event = "issues", headers = {} } = {},
): Promise<Answer> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return postHook(url, text, {
    "x-github-event": event,
    "x-github-delivery": id,
    "x-hub-signature-256": `sha256=${hexHmac(secret, text)}`,
    ...headers,
  });
}

/** A run that has ended. */
export async function endedRun(user: Client, run_id: string) {
  const read = async () => (await user.get(`/api/v1/runs/${run_id}`)).body;
  await expect.poll(async () => (await read()).finished_at, { interval: 20 }).toEqual(expect.any(String));
  return read();
}
