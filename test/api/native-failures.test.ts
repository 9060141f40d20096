import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { ask, charges, expectCleanAudit } from "../support/lab.ts";
import { NATIVE_KINDS, nativeConfig } from "../support/native-apis/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

// Failures of the native APIs that are no plain error status (contract 2.10.1, 4.7, 4.9.3).

/** A key without the shape of any vendor's keys. */
const NATIVE_KEY = "team.Qx7!Kp3.Zr9";
const CHAT = "/api/v1/chat/completions";
let upstream: Upstream;
let service: Service;
let user: Client;
beforeAll(async () => {
  upstream = await startUpstream();
  service = await startService({ env: { NATIVE_KEY }, config: nativeConfig(upstream) });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await service.stop();
  await upstream.close();
});
beforeEach(async () => {
  upstream.requests = [];
  user = await service.newUser({ trial: false, tokens: 1_000_000 });
});

it.each(NATIVE_KINDS)("%s: a redirect takes neither the key nor the prompt to another server", async (kind) => {
  const other = await startUpstream();
  upstream.answer((response) => void response.writeHead(307, { location: `${other.url}/elsewhere` }).end());
  for (const stream of [false, true]) {
    const { status, body } = await user.post(CHAT, ask(`native/${kind}`, { stream }));
    expect([status, body.error.code]).toEqual([502, "upstream_error"]);
  }
  expect([upstream.requests.length, other.requests]).toEqual([2, []]);
  expect(await charges(user)).toEqual([]);
  await other.close();
});

it.each(NATIVE_KINDS)("%s: a message that repeats the operator's key is shown without it", async (kind) => {
  const message = `Incorrect API key provided: ${NATIVE_KEY}.`;
  upstream.answer(
    json({ type: "error", error: { type: "authentication_error", message, code: 401, status: "X" } }, 401),
  );
  for (const stream of [false, true]) {
    const { status, body } = await user.post(CHAT, ask(`native/${kind}`, { stream }));
    expect(JSON.stringify(body)).not.toContain("Kp3");
    expect([status, body.error.metadata.provider.message]).toEqual([502, "Incorrect API key provided: [redacted]."]);
  }
});
