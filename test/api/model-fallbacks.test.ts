import { beforeEach, expect, test } from "vitest";
import { ask, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, json } from "../support/upstream.ts";

let user: Client;

const lab = useLab([
  { id: "lab/first", input_rate: 1, output_rate: 2 },
  { id: "lab/second", input_rate: 1, output_rate: 2 },
  { id: "lab/third", input_rate: 1, output_rate: 2 },
  { id: "lab/dear", input_rate: 9, output_rate: 90, trial_eligible: false },
]);
beforeEach(async () => {
  lab.upstream.answer(completion());
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});

const chat = (fields: object) => user.post("/api/v1/chat/completions", ask("lab/first", { ...fields }));

test.each([false, true])(
  "`models` names fallbacks: the next model answers if the first fails, and is charged once; stream: %s",
  async (stream) => {
    lab.upstream.answer(json({}, 529), completion("from the second"));
    const answer = await chat({ models: ["lab/second"], stream, stream_options: undefined });
    expect(answer.status).toBe(200);
    expect(lab.upstream.requests.map(({ body }) => body.model)).toEqual(["first", "second"]);
    for (const { body } of lab.upstream.requests) expect(body).not.toHaveProperty("models");
    const text = JSON.stringify(answer.body ?? answer);
    if (!stream) {
      expect(answer.body.routing).toMatchObject({
        candidates: ["lab/first", "lab/second"],
        chosen: "lab/second",
        fallbacks: [{ model: "lab/first", reason: "upstream_error" }],
      });
      expect(text).toContain("from the second");
    }
    // The first one rests now, so the next call begins with the second.
    await chat({ models: ["lab/second"] });
    expect(lab.upstream.requests.at(-1)?.body.model).toBe("second");
    lab.upstream.answer(completion());
    await chat({});
    expect((await user.get("/api/v1/users/me/transactions?type=usage")).body.transactions).toHaveLength(3);
  },
);

test("an answer with unreadable calls is a failure: the next model answers and is charged", async () => {
  const message = { role: "assistant", content: "hi", tool_calls: [null] };
  lab.upstream.answer(json({ id: "x", choices: [{ index: 0, message }] }), completion("from the third"));
  const answer = await chat({ model: "lab/second", models: ["lab/third"] });
  expect([answer.status, answer.body.model]).toEqual([200, "lab/third"]);
  expect((await user.get("/api/v1/users/me/transactions?type=usage")).body.transactions).toHaveLength(1);
});

test("an error of the request itself causes no fallback", async () => {
  lab.upstream.answer(json({ error: { message: "no" } }, 400));
  expect((await chat({ models: ["lab/second"] })).status).toBe(400);
  expect(lab.upstream.requests).toHaveLength(1);
});

test("each name is checked before any call", async () => {
  const unknown = await chat({ models: ["lab/none"] });
  expect(unknown.body.error.message).toContain("lab/none");
  expect(unknown.body.error.param).toBe("models[0]");
  expect((await chat({ models: ["a", "b", "c", "d"] })).body.error.param).toBe("models");
  expect((await chat({ model: "auto", models: ["lab/second"] })).body.error.param).toBe("models");
  user = await lab.service.newUser();
  const { error } = (await chat({ models: ["lab/dear"] })).body;
  expect([error.code, error.param]).toEqual(["model_not_trial_eligible", "models[0]"]);
  expect(lab.upstream.requests).toHaveLength(0);
});
