import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { ask, charges, settledBalance, useLab } from "../support/lab.ts";
import { completion, type Reply } from "../support/upstream.ts";

// Attacks on what a call pays: calls that use more tokens than the account has.

const BALANCE = 20_000;
const CALLS = 12;
const lab = useLab();

interface Measured {
  name: string;
  text: string;
  tokens: number;
}
const MEASURED: Measured[] = JSON.parse(readFileSync("test/fixtures/measured-tokens.json", "utf8"));

it.each(["Amharic", "Cherokee", "Tibetan", "Lao", "base64", "random letters", "digits", "uuids", "Han", "emoji zwj"])(
  "calls at the same time use no more tokens than the account has, whatever their script: %s",
  async (wanted) => {
    const { text, tokens } = MEASURED.find(({ name }) => name === wanted) as Measured;
    const times = Math.ceil(3_200 / tokens);
    const user = await lab.service.newUser({ trial: false, tokens: BALANCE });
    let waiting = 0;
    const all = Promise.withResolvers<void>();
    // No answer comes before the last call is held or rejected.
    const counting: Reply = async (response, request) => {
      waiting += 1;
      await all.promise;
      return completion("hi", { prompt_tokens: times * tokens, completion_tokens: 1 })(response, request);
    };
    lab.upstream.answer(counting);
    const messages = [{ role: "user", content: text.repeat(times) }];
    const calls = Array.from({ length: CALLS }, () =>
      user.post("/api/v1/chat/completions", ask("lab/plain", { messages, max_tokens: 1 })).then((answer) => {
        if (answer.status !== 200) rejected += 1;
        return answer;
      }),
    );
    let rejected = 0;
    await expect.poll(() => waiting + rejected).toBe(CALLS);
    all.resolve();
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect(statuses).toContain(200);
    expect(statuses).toContain(402);
    const spent = (await charges(user)).reduce((sum, { amount }) => sum - amount, 0);
    expect(spent).toBe(statuses.filter((status) => status === 200).length * (times * tokens + 2));
    expect(spent).toBe(BALANCE - (await settledBalance(user)));
    expect(spent).toBeLessThanOrEqual(BALANCE);
    expect((await user.get("/api/v1/users/me/transactions?type=absorbed")).body.transactions).toEqual([]);
  },
);
