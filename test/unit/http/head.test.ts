import { expect, test } from "vitest";
import { createRouter } from "../../../src/api/contract/endpoint.ts";
import { createProbesHttp } from "../../../src/api/http/server.ts";
import { createLog } from "../../../src/platform/telemetry/log.ts";
import { createMetrics } from "../../../src/platform/telemetry/metrics.ts";

test("a body that is made while it is sent ends at once for HEAD, because the client does not read it", async () => {
  let left = 0;
  const router = createRouter();
  router.plain("/parts", () => {
    async function* endless() {
      try {
        for (;;) yield "part";
      } finally {
        left += 1;
      }
    }
    return { kind: "parts", status: 200, headers: { "Content-Type": "text/plain" }, parts: endless() };
  });
  const http = createProbesHttp({ log: createLog("silent"), metrics: createMetrics() }, router.endpoints);
  const answer = await http.inject({ url: "/parts", method: "HEAD" });
  expect([answer.statusCode, answer.headers["content-type"], answer.body]).toEqual([200, "text/plain", ""]);
  expect(left).toBe(1);
});
