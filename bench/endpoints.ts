import type { LoadMeasure, Target } from "./support/load.ts";
import type { Ratio, Table } from "./support/outcome.ts";
import { inTurn, medianOf, pairedRatio } from "./support/statistics.ts";

/** One model call by each of the endpoints for model calls. They share everything but their shape. */

const CHAT = "chat completions";
const PROMPT = "Tell me in one paragraph what a purser does on a ship.";
const SYSTEM = "You are a helpful assistant.";
const ENDPOINTS: Record<string, { path: string; body: object }> = {
  [CHAT]: {
    path: "/api/v1/chat/completions",
    body: {
      messages: [
        { role: "system", content: SYSTEM },
        { role: "user", content: PROMPT },
      ],
    },
  },
  responses: { path: "/api/v1/responses", body: { instructions: SYSTEM, input: PROMPT } },
  "responses, store: false": {
    path: "/api/v1/responses",
    body: { instructions: SYSTEM, input: PROMPT, store: false },
  },
  messages: {
    path: "/api/v1/messages",
    body: { system: SYSTEM, max_tokens: 4096, messages: [{ role: "user", content: PROMPT }] },
  },
};

/** `loadOf` sends a target's requests for a while. Returns a table and the ratios to chat completions. */
export async function endpoints(
  base: Pick<Target, "port" | "headers"> & { model: string; rounds: number },
  loadOf: (name: string, target: Target) => Promise<LoadMeasure>,
): Promise<{ table: Table; ratios: Ratio[] }> {
  const { port, headers = {}, model, rounds } = base;
  const names = Object.keys(ENDPOINTS);
  const measured = (more: object) =>
    inTurn(
      new Map(
        Object.entries(ENDPOINTS).map(([name, { path, body }]) => [
          name,
          () => loadOf(name, { port, path, headers, body: { model, ...body, ...more } }),
        ]),
      ),
      rounds,
    );
  const [whole, streams] = [await measured({}), await measured({ stream: true })];
  const rate = (found: Map<string, LoadMeasure[]>, name: string) =>
    medianOf(found.get(name), (each) => each.per_second);
  const ratio = (found: Map<string, LoadMeasure[]>, name: string) =>
    pairedRatio(found.get(name), found.get(CHAT), (each) => each.per_second);
  const table: Table = {
    caption: "The endpoints for model calls, Purser on PostgreSQL, 32 callers",
    columns: ["requests/s", "p50, ms", "p99, ms", "streams/s"],
    rows: names.map((name) => ({
      name,
      values: [
        rate(whole, name),
        medianOf(whole.get(name), (each) => each.p50_ms),
        medianOf(whole.get(name), (each) => each.p99_ms),
        rate(streams, name),
      ],
    })),
  };
  const ratios = names
    .filter((name) => name !== CHAT)
    .flatMap((name) => [
      { of: `${name}, requests`, to: CHAT, value: ratio(whole, name), goal: "" },
      { of: `${name}, streams`, to: CHAT, value: ratio(streams, name), goal: "" },
    ]);
  return { table, ratios };
}
