import { describe, expect, it } from "vitest";
import { collectSecrets, failureOfStatus } from "../../../src/gateway/models/provider-errors.ts";
import { modelOf } from "./model-fixture.ts";

const KEY = "team.Qx7!Kp3.Zr9";
const ADDRESS = { base_url: "http://vllm-gateway:8000/v1", api_key: KEY };

/** The message that a caller gets for a provider's own. */
function shown(message: string, connection: Parameters<typeof collectSecrets>[0] = ADDRESS): unknown {
  const refused = { status: 401, body: { error: { message } }, retry_after_s: undefined };
  const { shape } = failureOfStatus({ ...refused, secrets: collectSecrets(connection) }, modelOf());
  return (shape.metadata?.provider as { message: string } | undefined)?.message;
}

describe("a provider's message", () => {
  it.each([
    [`Incorrect API key provided: ${KEY}.`, "Incorrect API key provided: [redacted]."],
    ["Incorrect API key provided: team.Qx7*******Zr9", "Incorrect API key provided: [redacted]"],
    ["no upstream at vllm-gateway:8000", "no upstream at [redacted]"],
    ["ask ops@acme-corp.com for access", "ask [redacted] for access"],
    ["no route to gw.internal.acme.corp:8080", "no route to [redacted]"],
    ["dial tcp 10.1.2.3:443: refused", "dial tcp [redacted]: refused"],
    ["see redis://admin:pw@cache:6379/0", "see [redacted]"],
    ["account 1234567890 has no credit", "account [redacted] has no credit"],
    ["Project number 48151 is disabled", "Project number [redacted] is disabled"],
    ["projects/123456789012/locations/eu", "projects/[redacted]/locations/eu"],
    [`${"x ".repeat(995)}${KEY}`, "x ".repeat(250)],
  ])("does not show a key, address or account of the operator: %s", (message, expected) => {
    expect(shown(message)).toBe(expected);
  });

  it.each([
    "This model's maximum tokens are 131072, and you asked for 1048576 tokens.",
    "max_tokens:4096 is above 2048",
    "Limit 30000000, used 29999999, requested 12345678. Try again in 6.123456789s.",
    "The daily limit is 1000000000.",
    "You sent 1234567890 bytes.",
    "seed must be at most 9223372036854775807 or 2147483647.",
    "messages.0.content.1.text: field required",
    "The organization has 100000 tokens per minute.",
    "Use a model such as gpt-4.1-mini-2025-04-14.",
  ])("keeps numbers and names that are not secret: %s", (message) => {
    expect(shown(message)).toBe(message);
  });

  it("keeps a placeholder for the key", () => {
    const message = "none of the messages is empty";
    expect(shown(message, { base_url: "http://localhost/v1", api_key: "none" })).toBe(message);
  });
});
