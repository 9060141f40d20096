import { afterAll, beforeAll, expect, test } from "vitest";
import type { HoldOutcome } from "../../src/account/ledger/ledger.types.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createLedgerFixture } from "./ledger-fixture.ts";

// An agent's monthly cap counts what it has spent and what its calls hold now. LibreChat and litellm check such
// caps before they spend (litellm#34732); here the check and the hold are one step.

let database: TestDatabase;
let db: Db;
let fixture: ReturnType<typeof createLedgerFixture>;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  fixture = createLedgerFixture(db, "2026-03-30T12:00:00.000Z");
});
afterAll(async () => {
  expect((await fixture.ledger.audit()).violations).toEqual([]);
  await db.close();
  await database.drop();
});

const tokensOf = (outcome: HoldOutcome) => (outcome.status === "held" ? outcome.held_tokens : outcome.code);

async function newAgent(cap_tokens: number, from_day = "2026-03-01") {
  const [user_id, agent_id] = [await fixture.account(1_000_000), newId()];
  return {
    user_id,
    hold: (amount: number, more: object = {}) =>
      fixture.hold(user_id, amount, { agent_id, agent_budget: { from_day, cap_tokens }, ...more }),
    settle: (hold_id: string, cost: number) => fixture.settle(user_id, hold_id, cost, { agent_id }),
    release: (hold_id: string) => fixture.ledger.release({ user_id, hold_id }),
  };
}

test("concurrent holds together take no more than the cap", async () => {
  const agent = await newAgent(1_000);
  const outcomes = await Promise.all(Array.from({ length: 9 }, () => agent.hold(300)));
  expect(outcomes.map(tokensOf).filter((held) => held === 300)).toHaveLength(3);
  expect(outcomes.map(tokensOf).filter((code) => code === "in_flight_exhausted")).toHaveLength(6);
});

test("a call with a minimum holds what is left of the cap", async () => {
  const agent = await newAgent(1_000);
  await agent.hold(700);
  expect(tokensOf(await agent.hold(500, { minimum_tokens: 100 }))).toBe(300);
});

test("spent tokens count against the cap for good; released tokens are free again", async () => {
  const agent = await newAgent(1_000);
  const [spent, let_go] = [newId(), newId()];
  await agent.hold(600, { hold_id: spent });
  await agent.hold(400, { hold_id: let_go });
  expect(tokensOf(await agent.hold(300))).toBe("in_flight_exhausted");
  await Promise.all([agent.settle(spent, 550), agent.release(let_go)]);
  expect(tokensOf(await agent.hold(500))).toBe("agent_budget_exceeded");
  expect(tokensOf(await agent.hold(450))).toBe(450);
});

test("a hold in the same batch as a settle counts what the settle left of the cap", async () => {
  const agent = await newAgent(1_000);
  const first = newId();
  await agent.hold(1_000, { hold_id: first });
  // The hold in front keeps the ledger busy, so that the two after it go in one batch.
  const busy = agent.hold(0, { agent_budget: null });
  const [, after] = await Promise.all([agent.settle(first, 400), agent.hold(700, { minimum_tokens: 1 }), busy]);
  expect(tokensOf(after)).toBe(600);
});

test("other agents, calls without an agent, and earlier days do not count", async () => {
  const agent = await newAgent(1_000);
  const old = newId();
  await agent.hold(900, { hold_id: old });
  await agent.settle(old, 900);
  await agent.hold(800, { agent_id: newId() });
  await agent.hold(800, { agent_id: null, agent_budget: null });
  expect(tokensOf(await agent.hold(200))).toBe("agent_budget_exceeded");
  const april = { agent_budget: { from_day: "2026-04-01", cap_tokens: 1_000 } };
  expect(tokensOf(await agent.hold(1_000, april))).toBe(1_000);
});
