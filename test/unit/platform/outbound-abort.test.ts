import { expect, it } from "vitest";
import { createOutbound } from "../../../src/platform/net/outbound.ts";

it("a request that is aborted before its name is resolved ends as aborted, and a later failure of the lookup does not end the process", async () => {
  const failing = Promise.withResolvers<string[]>();
  const outbound = createOutbound({ allow: [], resolve: () => failing.promise });
  const request = {
    url: "https://gone.example.com/",
    method: "GET",
    headers: {},
    max_bytes: 1,
    timeout_ms: 10_000,
    max_redirects: 0,
    signal: AbortSignal.abort(),
  };
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => unhandled.push(reason);
  process.on("unhandledRejection", note);
  await expect(outbound.request(request)).rejects.toMatchObject({ code: "aborted" });
  failing.reject(new Error("ENOTFOUND"));
  await new Promise(setImmediate);
  process.off("unhandledRejection", note);
  expect(unhandled).toEqual([]);
});
