import { expect, test } from "vitest";
import { createRouter } from "../../../src/api/contract/router.ts";
import { createProbesHttp } from "../../../src/api/http/server.ts";
import { createLog } from "../../../src/platform/telemetry/log.ts";
import { createMetrics } from "../../../src/platform/telemetry/metrics.ts";

test("a stream that is requested with HEAD is cancelled, because the client neither reads nor closes it", async () => {
  let open = 0;
  const router = createRouter();
  router.get("/events", () => {
    open += 1;
    const body = new ReadableStream({
      cancel() {
        open -= 1;
      },
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  });
  const http = createProbesHttp({ log: createLog("silent"), metrics: createMetrics() }, [router]);
  const answer = await http.request("/events", { method: "HEAD" });
  expect([answer.status, answer.headers.get("content-type"), answer.body]).toEqual([200, "text/event-stream", null]);
  expect(open).toBe(0);
  await http.request("/events");
  expect(open).toBe(1);
});
