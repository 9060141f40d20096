import { setTimeout as delayed } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, charges, expectCleanAudit, LAB_KEY, labConfig, settledBalance } from "../support/lab.ts";
import { NATIVE_ENV, nativeConfig } from "../support/native-apis/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { ANSWER, paced, THINKING_MODELS, THOUGHT_TOKENS } from "../support/thinking-models.ts";
import { startUpstream, type Upstream } from "../support/upstream.ts";

// Attack: a caller hangs up before the provider reports its hidden reasoning, and pays only for the text.

const BALANCE = 1_000_000;
/** The time after which a provider reports its usage. Servers need less. */
const REPORT_MS = 300;
const OUTPUT_RATE = 4;

let upstream: Upstream;
let service: Service;
beforeAll(async () => {
  upstream = await startUpstream();
  const lab = labConfig(upstream, [{ id: "lab/thinking", input_rate: 1, output_rate: OUTPUT_RATE }]);
  const native = nativeConfig(upstream);
  const models = [...lab.models, ...native.models].map((model) => ({ ...model, max_output_tokens: 40_000 }));
  const config = { providers: [...lab.providers, ...native.providers], models, limits: lab.limits };
  service = await startService({ env: { LAB_KEY, ...NATIVE_ENV }, config });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await service.stop();
  await upstream.close();
});

async function expectPaidThoughts(user: Client): Promise<void> {
  const left = await settledBalance(user);
  const [charge, ...others] = await charges(user);
  expect(others).toEqual([]);
  expect(BALANCE - left).toBe(-(charge?.amount ?? 0));
  expect(BALANCE - left).toBeGreaterThan(OUTPUT_RATE * THOUGHT_TOKENS);
}

/** A gate in the provider's answer, and the arrival at it. */
function createGate() {
  const reached = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  return {
    reached: reached.promise,
    open: () => opened.resolve(),
    async pass() {
      reached.resolve();
      await opened.promise;
      await delayed(REPORT_MS);
    },
  };
}

/** The ends of streams, after the answer's text, which have the usage. */
const END = /"finish_reason":"stop"|"finishReason"|response\.completed|message_delta/;

describe.each(THINKING_MODELS)(
  "hidden reasoning is paid by a caller that hangs up: $name",
  ({ model, fields, create }) => {
    const places: [string, (sent: { text: string; nth: number }) => boolean][] = [
      ["before the first event", ({ nth }) => nth === 0],
      ["after the first event", ({ nth }) => nth === 1],
      ["after the text, before the usage", ({ text }) => END.test(text)],
    ];
    it.each(places)("%s", async (_, isPlace) => {
      const user = await service.newUser({ trial: false, tokens: BALANCE });
      const gate = createGate();
      let is_past = false;
      upstream.answer(
        paced(create(), async (sent) => {
          if (is_past || !isPlace(sent)) return;
          is_past = true;
          await gate.pass();
        }),
      );
      const connection = new AbortController();
      const answer = fetch(`${service.url}/api/v1/chat/completions`, {
        method: "POST",
        headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json" },
        body: JSON.stringify(ask(model, { stream: true, ...fields })),
        signal: connection.signal,
      });
      answer.then((response) => response.text()).catch(() => {});
      await gate.reached;
      connection.abort();
      await answer.catch(() => {});
      gate.open();
      await expectPaidThoughts(user);
    });

    it("in an agent's run that is cancelled", async () => {
      const user = await service.newUser({ trial: false, tokens: BALANCE });
      const gate = createGate();
      upstream.answer(paced(create(), ({ nth }) => (nth === 0 ? gate.pass() : null)));
      const model_settings = { reasoning_effort: "high" };
      const wanted = { name: "Thinker", model_id: model, run_prompt: "Think.", model_settings };
      const path = `/api/v1/agents/${(await user.post("/api/v1/agents", wanted)).body.id}/runs`;
      const { id } = (await user.post(path)).body;
      await gate.reached;
      await user.post(`${path}/${id}/cancel`);
      gate.open();
      await expect.poll(async () => (await user.get(`${path}/${id}`)).body.status).toBe("cancelled");
      const { usage } = (await user.get(`${path}/${id}`)).body;
      expect(usage.output_tokens).toBeGreaterThanOrEqual(THOUGHT_TOKENS);
      await expectPaidThoughts(user);
    });
  },
);

it("an answer that is read to its end is charged as before", async () => {
  const user = await service.newUser({ trial: false, tokens: BALANCE });
  upstream.answer(THINKING_MODELS[0]?.create() as never);
  const { body } = await user.post("/api/v1/chat/completions", ask("lab/thinking", { stream: true }));
  expect(body).toContain(ANSWER);
  expect(await settledBalance(user)).toBe(BALANCE - 10 - OUTPUT_RATE * (THOUGHT_TOKENS + 5));
});
