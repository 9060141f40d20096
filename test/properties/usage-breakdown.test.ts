import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { archiveClosedMonths } from "../../src/account/ledger/archive.service.ts";
import type {
  BreakdownRequest,
  UsageDimension,
  UsageFigures,
  UsageSeries,
} from "../../src/account/ledger/usage.types.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createLedgerFixture, settleOf } from "./ledger-fixture.ts";

// contract 5.3.3. The expected figures are summed here, call by call.

/** PROPERTY_SEED replays a run. */
const SEED = Number(process.env.PROPERTY_SEED ?? Date.now() % 1_000_000);
const CALLS = 400;
const START = "2026-01-20T12:00:00.000Z";
const WINDOW = { from: "2026-01-01", to: "2026-03-02" };
const FIRST_STORED = "2026-02-01";
const LIMIT = 3;

let database: TestDatabase;
let db: Db;
let folder: string;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  folder = mkdtempSync(join(tmpdir(), "purser-usage-"));
});
afterAll(async () => {
  await database.drop();
  rmSync(folder, { recursive: true });
});

interface Call extends UsageFigures {
  date: string;
  model: string;
  agent_id: string | null;
  api_key_id: string | null;
  labels: Record<string, string>;
}

function labelOf(call: Call, dimension: UsageDimension): string | null {
  if (dimension === "model") return call.model;
  if (dimension === "agent" || dimension === "api_key") return call[`${dimension}_id`];
  return call.labels[dimension] ?? null;
}

const sumOf = (calls: readonly UsageFigures[]): UsageFigures => ({
  cost_tokens: calls.reduce((sum, call) => sum + call.cost_tokens, 0),
  tokens: calls.reduce((sum, call) => sum + call.tokens, 0),
  requests: calls.reduce((sum, call) => sum + call.requests, 0),
});

function seriesOf(calls: readonly Call[]): UsageSeries {
  const daily = [...Map.groupBy(calls, ({ date }) => date)].map(([date, of_day]) => ({ date, ...sumOf(of_day) }));
  return { ...sumOf(calls), daily: daily.toSorted((a, b) => (a.date < b.date ? -1 : 1)) };
}

const figuresOf = ({ cost_tokens, tokens, requests, daily }: UsageSeries) => ({ cost_tokens, tokens, requests, daily });

/** All dimensions, alone and in pairs. */
const NAMES = ["model", "agent", "api_key", "user", "metadata.team"] as const;
const PAIRS = NAMES.flatMap((a) => [[a], ...NAMES.filter((b) => b !== a).map((b) => [a, b])]);

test(`groups, days and filters of random calls sum to the account's usage, also after an archive (PROPERTY_SEED=${SEED})`, async () => {
  const { ledger, clock, account, calls: deps } = createLedgerFixture(db, START);
  let state = SEED;
  const below = (end: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * end);
  };
  const pick = <T>(of: readonly T[]): T => of[below(of.length)] as T;
  const [agents, keys] = [
    [null, newId(), newId()],
    [null, newId(), newId()],
  ] as const;
  const [user_id, stranger] = [await account(1_000_000_000), await account(1_000_000)];
  const calls: Call[] = [];
  for (let n = 0; n < CALLS; n += 20) {
    const batch = Array.from({ length: 20 }, (): Call & { input_tokens: number } => {
      const input_tokens = 60 + below(100);
      return {
        date: clock.now().slice(0, 10),
        model: `lab/${below(5)}`,
        agent_id: pick(agents),
        api_key_id: pick(keys),
        labels: { ...pick([{}, { user: `u${below(6)}` }]), ...pick([{}, { "metadata.team": pick(["red", "=2+3"]) }]) },
        input_tokens,
        cost_tokens: pick([0, below(10_000)]),
        tokens: input_tokens + 20,
        requests: 1,
      };
    });
    await Promise.all(
      batch.map(({ model, agent_id, api_key_id, labels, input_tokens, cost_tokens }) =>
        ledger.settle(settleOf(user_id, newId(), cost_tokens, { model, agent_id, api_key_id, labels, input_tokens })),
      ),
    );
    await ledger.settle(settleOf(stranger, newId(), 77, { labels: { user: "u1", "metadata.team": "red" } }));
    calls.push(...batch);
    clock.put(
      Temporal.Instant.from(clock.now())
        .add({ hours: 20 + below(20) })
        .toString({ smallestUnit: "millisecond" }) as never,
    );
  }
  const summary = await ledger.usage(user_id, 365);
  const filters: [BreakdownRequest["filter"], (call: Call) => boolean][] = [
    [{ labels: {} }, () => true],
    [{ model: "lab/1", labels: {} }, (call) => call.model === "lab/1"],
    [{ agent_id: null, labels: {} }, (call) => call.agent_id === null],
    [
      { agent_id: agents[1], api_key_id: null, labels: {} },
      (call) => call.agent_id === agents[1] && call.api_key_id === null,
    ],
    [
      { labels: { user: "u2", "metadata.team": "red" } },
      ({ labels }) => labels.user === "u2" && labels["metadata.team"] === "red",
    ],
  ];
  const check = async (first_stored: string) => {
    for (const dimensions of PAIRS) {
      for (const [filter, isIn] of filters) {
        const found = await ledger.usageBreakdown(user_id, { ...WINDOW, dimensions, filter, limit: LIMIT });
        const about = JSON.stringify({ dimensions, filter });
        const by_call = dimensions.length + Object.keys(filter).length > 2 || Object.keys(filter.labels).length > 0;
        const has_label = [...dimensions, ...Object.keys(filter.labels)].some(
          (name) => name === "user" || name.startsWith("metadata."),
        );
        const from = by_call && has_label && first_stored > WINDOW.from ? first_stored : WINDOW.from;
        expect(found.from, about).toBe(from);
        const expected = calls.filter((call) => isIn(call) && call.date >= from);
        expect(found.total, about).toEqual(seriesOf(expected));
        const parts = [...found.groups, ...(found.other === null ? [] : [found.other])];
        expect(sumOf(parts), about).toEqual(sumOf(expected));
        const keyOf = (call: Call) => JSON.stringify(dimensions.map((name) => labelOf(call, name)));
        const groups = Map.groupBy(expected, keyOf);
        for (const group of found.groups)
          expect(figuresOf(group), about).toEqual(seriesOf(groups.get(JSON.stringify(group.values)) ?? []));
        const costs = [...groups.values()].map((of_group) => sumOf(of_group).cost_tokens).sort((a, b) => b - a);
        expect(
          found.groups.map(({ cost_tokens }) => cost_tokens),
          about,
        ).toEqual(costs.slice(0, LIMIT));
        expect(found.other?.groups ?? 0, about).toBe(Math.max(0, groups.size - LIMIT));
      }
    }
  };
  const all = await ledger.usageBreakdown(user_id, {
    ...WINDOW,
    dimensions: ["model"],
    filter: { labels: {} },
    limit: 100,
  });
  expect([all.total.cost_tokens, all.total.tokens]).toEqual([summary.total_cost_tokens, summary.total_tokens_used]);
  expect(all.total.daily).toEqual(
    summary.daily_usage
      .filter(({ requests }) => requests > 0)
      .map(({ date, cost_tokens, tokens, requests }) => ({ date, cost_tokens, tokens, requests })),
  );
  await check(WINDOW.from);
  expect(await ledger.metadataNames(user_id, WINDOW)).toEqual(["team"]);
  expect(await ledger.metadataNames(user_id, { from: "2025-01-01", to: "2025-02-01" })).toEqual([]);
  await archiveClosedMonths({ db: deps.db, folder, report: () => {} }, `${FIRST_STORED}T00:00:00.000Z`);
  expect(await ledger.archivedBefore(user_id)).toBe(`${FIRST_STORED}T00:00:00.000Z`);
  await check(FIRST_STORED);
});
