import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { ask, charges, expectCleanAudit } from "../support/lab.ts";
import { NATIVE_ENV, NATIVE_KINDS, nativeConfig } from "../support/native-apis/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { startUpstream, type Upstream } from "../support/upstream.ts";

// Failures of the native APIs that are no plain error status (contract 4.7, 4.9.3).

const CHAT = "/api/v1/chat/completions";
let upstream: Upstream;
let service: Service;
let user: Client;
beforeAll(async () => {
  upstream = await startUpstream();
  service = await startService({ env: NATIVE_ENV, config: nativeConfig(upstream) });
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
