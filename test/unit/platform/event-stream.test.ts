import { expect, it } from "vitest";
import { errors } from "../../../src/kernel/errors.ts";
import { eventStream } from "../../../src/platform/net/event-stream.ts";

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
  const text = await eventStream(source, { live, request_id: "r" }).text();
  const { type, code, message } = errors.internal().shape;
  const error = JSON.stringify({ error: { type, code, message, param: null, request_id: "r" } });
  expect(text).toBe(`data: one\n\ndata: ${error}\n\n`);
  expect(left).toBe(1);
});
