import type { ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { expect, it } from "vitest";
import { errors } from "../../../src/kernel/errors.ts";
import { writeEvents } from "../../../src/platform/net/event-stream.ts";

const live = { refused: new AbortController().signal, check: async () => {}, leave: () => {} };

it("a source that fails ends the stream with an error event without the error's message, and is closed", async () => {
  const steps = ["data: one\n\n"];
  let left = 0;
  const source = {
    async next() {
      const value = steps.shift();
      if (value === undefined) throw new TypeError("secret detail");
      return { done: false as const, value };
    },
    leave: () => {
      left += 1;
    },
  };
  const outgoing = new PassThrough();
  await writeEvents(outgoing as unknown as ServerResponse, source, { live, request_id: "r" });
  const text = Buffer.concat(await outgoing.toArray()).toString();
  const { type, code, message } = errors.internal().shape;
  const error = JSON.stringify({ error: { type, code, message, param: null, request_id: "r" } });
  expect(text).toBe(`data: one\n\ndata: ${error}\n\n`);
  expect(left).toBe(1);
});
