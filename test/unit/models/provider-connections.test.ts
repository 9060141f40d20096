import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createAnthropicProvider } from "../../../src/gateway/models/anthropic.adapter.ts";
import { createGoogleProvider } from "../../../src/gateway/models/google.adapter.ts";
import type { Provider } from "../../../src/gateway/models/models.types.ts";
import { createOpenAiCompatible } from "../../../src/gateway/models/openai-compatible.adapter.ts";
import { monotonicMs } from "../../../src/platform/lib/clock.ts";
import { startUpstream, type Upstream } from "../../support/upstream.ts";
import { modelOf, requestOf } from "./model-fixture.ts";

let upstream: Upstream;
beforeEach(async () => {
  upstream = await startUpstream();
});
afterEach(() => upstream.close());

describe("the notification that a request is sent", () => {
  const providers: [string, (base_url: string) => Provider][] = [
    ["openai-compatible", (base_url) => createOpenAiCompatible({ base_url, api_key: null })],
    ["anthropic", (base_url) => createAnthropicProvider({ base_url, api_key: "k" })],
    ["google", (base_url) => createGoogleProvider({ base_url, api_key: "k" })],
  ];
  it.each(providers)("%s: comes before the answer, and not while the connection is being opened", async (_, create) => {
    let sent = 0;
    const ask = async (provider: Provider, signal: AbortSignal) => {
      const request = await provider.prepare({
        model: modelOf(),
        request: requestOf(),
        max_output_tokens: 50,
        stream: true,
      });
      const onSent = () => {
        sent += 1;
      };
      return provider.stream(request, { signal, deadline_ms: monotonicMs() + 20_000, onSent });
    };
    upstream.answer(() => {});
    const left = new AbortController();
    const answer = ask(create(upstream.url), left.signal).catch(() => {});
    await upstream.until(() => upstream.requests.length === 1);
    expect(sent).toBe(1);
    left.abort();
    await answer;

    // The server accepts the connection, and never answers the TLS handshake.
    const silent_server = createServer().listen(0, "127.0.0.1");
    await once(silent_server, "listening");
    const unsent = new AbortController();
    const { port } = silent_server.address() as AddressInfo;
    const opening = ask(create(`https://127.0.0.1:${port}/v1`), unsent.signal).catch(() => {});
    const [socket] = (await once(silent_server, "connection")) as [Socket];
    await once(socket, "data");
    unsent.abort();
    await opening;
    expect(sent).toBe(1);
    socket.destroy();
    silent_server.close();
  });
});
