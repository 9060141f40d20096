import { beforeAll, describe, expect, test } from "vitest";
import { parseCsv } from "../../src/account/ledger/csv.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, json } from "../support/upstream.ts";

// Runs of all agents in one list: contract 6.7.2.

const lab = useLab(undefined, { env: { PURSER_TEST_CLOCK: "2026-03-01T00:00:00Z" } });
const setClock = (now: string) => lab.service.admin.request("PUT", "/api/v1/admin/clock", { now });
const WAIT = { Prefer: "wait=30" };

async function newAgent(user: Client, name: string, fields: object = {}): Promise<string> {
  const agent = { name, model_id: "lab/plain", run_prompt: "Go.", ...fields };
  return (await user.post("/api/v1/agents", agent)).body.id;
}

interface Found {
  id: string;
  [field: string]: unknown;
}
async function listAll(user: Pick<Client, "get">, query: string): Promise<Found[]> {
  const found: Found[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const answer = await user.get(`/api/v1/runs?${query}${cursor === "" ? "" : `&cursor=${cursor}`}`);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    found.push(...answer.body.runs);
    cursor = answer.body.next_cursor;
  }
  return found;
}

describe("the filters of all runs", () => {
  let user: Client;
  let second: { id: string; key: string };
  /** The runs by a name that the table can use. */
  const run_of: Record<string, string> = {};
  const agents: Record<string, string> = {};

  beforeAll(async () => {
    user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    const key = await user.post("/api/v1/api-keys", { name: "second" });
    second = { id: key.body.id, key: key.body.key };
    const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" };
    agents.watcher = await newAgent(user, "Watcher", daily);
    agents.writer = await newAgent(user, "Writer");
    lab.upstream.answer(completion("\n\nThe price of INV-2026-0042 is 17 euros.\nSecond line."));
    await setClock("2026-03-01T12:00:00Z");
    const [due] = await listAll(user, "trigger=schedule");
    run_of.due = due?.id ?? "";
    agents.schedule = String(due?.schedule_id);
    await setClock("2026-03-02T06:00:00Z");
    const now = async (name: string, body: object, { as = user as Pick<Client, "post">, agent = "writer" } = {}) => {
      const run = await as.post(`/api/v1/agents/${agents[agent]}/runs`, body, WAIT);
      run_of[name] = run.body.id;
    };
    lab.upstream.answer(completion("Grüße aus Köln, see https://example.com/prices"));
    await now("koeln", { input: { city: "Köln", note: "first\nsecond" }, metadata: { batch: "b1", row: "1" } });
    await now(
      "paris",
      { input: { city: "Paris" }, metadata: { batch: "b1", row: "2" } },
      {
        as: lab.service.as(second.key),
      },
    );
    lab.upstream.answer(json({ error: { message: "no such deployment" } }, 400));
    await now("failed", { metadata: { batch: "b2" } });
    lab.upstream.answer(completion("A short answer."));
    const chat = { messages: [{ role: "user", content: "hi" }], user: "customer-7", metadata: { topic: "refund" } };
    run_of.chat = (await user.post(`/api/v1/agents/${agents.writer}/chat`, chat)).body.run_id;
  });

  test.each<[query: string, names: string[]]>([
    ["", ["chat", "failed", "paris", "koeln", "due"]],
    ["status=failed", ["failed"]],
    ["status=queued", []],
    ["has_errors=true", ["failed"]],
    ["has_errors=false&trigger=manual", ["paris", "koeln"]],
    ["model_id=lab/plain&trigger=chat", ["chat"]],
    ["model_id=lab/other", []],
    ["trigger=schedule", ["due"]],
    ["trigger=chat", ["chat"]],
    ["trigger=manual&status=succeeded", ["paris", "koeln"]],
    ["agent_id={watcher}", ["due"]],
    ["schedule_id={schedule}", ["due"]],
    ["api_key_id={second}", ["paris"]],
    [`api_key_id=${newId()}`, []],
    ["user=customer-7", ["chat"]],
    ["metadata[batch]=b1", ["paris", "koeln"]],
    ["metadata%5Bbatch%5D=b1&metadata[row]=2", ["paris"]],
    ["metadata[topic]=refund", ["chat"]],
    ["metadata[batch]=b", []],
    ["from=2026-03-02", ["chat", "failed", "paris", "koeln"]],
    ["to=2026-03-02", ["due"]],
    ["from=2026-03-01T09:00:00Z&to=2026-03-01T09:00:01Z", ["due"]],
    ["q=price", ["due"]],
    ["q=PRICE%20euros", ["due"]],
    ["q=price%20answer", []],
    ["q=inv-2026-0042", ["due"]],
    ["q=0042", ["due"]],
    ["q=k%C3%B6ln", ["paris", "koeln"]],
    ["q=example.com", ["paris", "koeln"]],
    ["q=paris", ["paris"]],
    ["q=second", ["koeln", "due"]],
    ["q=deployment", []],
    ["q=model_unavailable", ["failed"]],
    ["q=pric", []],
    ["q='%20or%201%3D1", []],
    ["q=prices&metadata[batch]=b1&api_key_id={second}&status=succeeded", ["paris"]],
  ])("%s", async (query, names) => {
    const filter = query.replaceAll(/\{(\w+)\}/g, (_, name) => agents[name] ?? second.id);
    const ids = names.map((name) => run_of[name]);
    expect((await listAll(user, filter)).map(({ id }) => id)).toEqual(ids);
    // page by page
    expect((await listAll(user, `${filter}&limit=1`)).map(({ id }) => id)).toEqual(ids);
  });

  test("a row has the run's record, its agent, the first line of its output or error, its duration and cost", async () => {
    const rows = await listAll(user, "");
    const [chat, failed, paris, , due] = rows;
    const { runs } = (await user.get(`/api/v1/agents/${agents.writer}/runs`)).body;
    const record = runs.find(({ id }: Found) => id === run_of.paris);
    expect(paris).toEqual({
      ...record,
      agent: { id: agents.writer, name: "Writer", deleted: false },
      user: null,
      api_key_id: second.id,
      duration_ms: Date.parse(record.finished_at) - Date.parse(record.started_at),
      has_injection: false,
      first_line: "Grüße aus Köln, see https://example.com/prices",
      // 10 × 1 + 4 × 2 tokens
      cost_usd: "0.0000288",
    });
    expect(record.usage.cost_tokens).toBe(18);
    expect(due?.first_line).toBe("The price of INV-2026-0042 is 17 euros.");
    expect(failed).toMatchObject({
      first_line: (failed as { error?: { message: string } }).error?.message,
      cost_usd: "0",
    });
    expect(chat).toMatchObject({ user: "customer-7", metadata: { topic: "refund" }, trigger: "chat" });
    const detail = (await user.get(`/api/v1/agents/${agents.writer}/runs/${run_of.paris}`)).body;
    expect((await user.get(`/api/v1/runs/${run_of.paris}`)).body).toEqual(detail);
  });

  test("another user finds none of these runs, by no filter", async () => {
    const stranger = await lab.service.newUser();
    for (const query of ["", "q=price", "metadata[batch]=b1", `agent_id=${agents.writer}`, `api_key_id=${second.id}`]) {
      expect(await listAll(stranger, query)).toEqual([]);
    }
    // The index has the user's id beside the words.
    expect(await listAll(stranger, `q=${user.user_id}`)).toEqual([]);
    const csv = await fetch(`${lab.service.url}/api/v1/runs?format=csv`, {
      headers: { Authorization: `Bearer ${stranger.key}` },
    });
    expect((await csv.text()).trim().split("\r\n")).toHaveLength(1);
    expect((await stranger.get(`/api/v1/runs/${run_of.paris}`)).status).toBe(404);
    expect((await user.get(`/api/v1/runs/${newId()}`)).status).toBe(404);
    expect((await user.get("/api/v1/runs/nonsense")).status).toBe(404);
  });

  test("as CSV all of them, filtered, and no text is a formula in a spreadsheet", async () => {
    lab.upstream.answer(completion('=HYPERLINK("http://x","a, b")'));
    await user.post(`/api/v1/agents/${agents.writer}/runs`, { metadata: { batch: "b3" } }, WAIT);
    const read = async (query: string) => {
      const answer = await fetch(`${lab.service.url}/api/v1/runs?format=csv${query}`, {
        headers: { Authorization: `Bearer ${user.key}` },
      });
      expect(answer.headers.get("content-type")).toContain("text/csv");
      expect(answer.headers.get("content-disposition")).toBe('attachment; filename="runs.csv"');
      async function* pieces() {
        yield await answer.text();
      }
      const [head = [], ...lines] = await Array.fromAsync(parseCsv(pieces()));
      expect(head).toEqual([...new Set(head)]);
      return lines.map((line) => Object.fromEntries(head.map((name, at) => [name, line[at]])));
    };
    const all = await read("&limit=1");
    expect(all.map(({ id }) => id)).toEqual((await listAll(user, "")).map(({ id }) => id));
    const [formula] = await read("&metadata[batch]=b3");
    expect(formula).toMatchObject({
      agent_name: "Writer",
      status: "succeeded",
      trigger: "manual",
      cost_tokens: "18",
      cost_usd: "0.0000288",
      first_line: `'=HYPERLINK("http://x","a, b")`,
      metadata: '{"batch":"b3"}',
    });
  });

  test("runs of a deleted agent stay in the list, and each can be read", async () => {
    const agent = await newAgent(user, "Shortlived");
    lab.upstream.answer(completion("unforgettable"));
    const run = (await user.post(`/api/v1/agents/${agent}/runs`, {}, WAIT)).body;
    await user.request("DELETE", `/api/v1/agents/${agent}`);
    const found = await listAll(user, "q=unforgettable");
    expect(found).toMatchObject([{ id: run.id, agent: { id: agent, name: "Shortlived", deleted: true } }]);
    expect((await user.get(`/api/v1/runs/${run.id}`)).body).toEqual(run);
    expect((await user.get(`/api/v1/agents/${agent}/runs/${run.id}`)).status).toBe(404);
  });
});

test("a walk through the pages has each run once, while new ones arrive and others end", async () => {
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const agent = await newAgent(user, "Busy");
  lab.upstream.answer(completion());
  const start = (wait = {}) => user.post(`/api/v1/agents/${agent}/runs`, {}, wait);
  const earlier = [];
  for (let n = 0; n < 12; n += 1) earlier.push((await start(n < 6 ? WAIT : {})).body.id);
  const seen: string[] = [];
  let cursor = "";
  do {
    const { body } = await user.get(`/api/v1/runs?limit=5${cursor === "" ? "" : `&cursor=${cursor}`}`);
    seen.push(...body.runs.map(({ id }: { id: string }) => id));
    cursor = body.next_cursor ?? "";
    await Promise.all([start(), start(WAIT)]);
  } while (cursor !== "");
  expect(seen).toEqual(earlier.toReversed());
});

test("a batch of 200 runs is found again by its metadata, and each run by a word of its input or output", async () => {
  const user = await lab.service.newUser({ trial: false, tokens: 10_000_000 });
  const agent = await newAgent(user, "Extractor");
  lab.upstream.answer((response, request) =>
    completion(`Extracted from ${/order \w+/.exec(JSON.stringify(request.body.messages))?.[0]}.`)(response, request),
  );
  const rows = Array.from({ length: 200 }, (_, n) => n);
  const start = (n: number) =>
    user.post(`/api/v1/agents/${agent}/runs`, {
      run_prompt: `Read order ord${n}x.`,
      input: { city: `town-${n}` },
      metadata: { batch: "2026-03", row: String(n) },
    });
  const started = await Promise.all(rows.map(start));
  expect(new Set(started.map(({ status }) => status))).toEqual(new Set([202]));
  const ids = started.map(({ body }) => body.id);
  const batch = "metadata[batch]=2026-03";
  await expect.poll(() => listAll(user, `${batch}&status=succeeded`), { timeout: 60_000 }).toHaveLength(200);
  const found = await listAll(user, batch);
  expect(new Set(found.map(({ id }) => id))).toEqual(new Set(ids));
  for (const n of [0, 42, 199]) {
    expect((await listAll(user, `${batch}&metadata[row]=${n}`)).map(({ id }) => id)).toEqual([ids[n]]);
    expect((await listAll(user, `q=town-${n}`)).map(({ id }) => id)).toEqual([ids[n]]);
    expect((await listAll(user, `q=ord${n}x`)).map(({ id }) => id)).toEqual([ids[n]]);
  }
  expect(await listAll(user, "q=extracted")).toHaveLength(200);
  expect(await listAll(user, `${batch}&q=elsewhere`)).toEqual([]);
});
