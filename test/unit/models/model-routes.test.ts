import { describe, expect, it } from "vitest";
import { routeOrder } from "../../../src/gateway/models/model-routes.ts";

const ROUTES = [
  { route: "a", weight: 5 },
  { route: "b", weight: 3 },
  { route: "c", weight: 2 },
  { route: "spare", weight: 0 },
];
/** A fixed list of keys, so that the shares are equal in each run. */
const KEYS = Array.from({ length: 20_000 }, (_, n) => `user-${n}`);

const orderOf = (key: string, routes = ROUTES) => routeOrder(routes, key).map(({ route }) => route);

describe("the order of a model's routes", () => {
  it("gives each route a share of the callers by its weight", () => {
    const firsts = KEYS.map((key) => orderOf(key)[0]);
    for (const { route, weight } of ROUTES) {
      const share = firsts.filter((first) => first === route).length / KEYS.length;
      expect(Math.abs(share - weight / 10), `${route}: ${share}`).toBeLessThan(0.01);
    }
  });

  it("divides the callers of a failed route among the others by their weights", () => {
    const seconds = KEYS.map((key) => orderOf(key)).flatMap(([first, second]) => (first === "a" ? second : []));
    const share = seconds.filter((second) => second === "b").length / seconds.length;
    expect(Math.abs(share - 3 / 5), `b: ${share}`).toBeLessThan(0.02);
  });

  it("is the same for a key each time, so that its calls find the provider's cache", () => {
    for (const key of KEYS.slice(0, 100)) expect(orderOf(key)).toEqual(orderOf(key));
  });

  it("moves only the callers of a route that is removed", () => {
    const left = ROUTES.filter(({ route }) => route !== "b");
    for (const key of KEYS.slice(0, 1_000)) {
      expect(orderOf(key, left)).toEqual(orderOf(key).filter((route) => route !== "b"));
    }
  });

  it("puts routes of weight 0 last, in the order of the configuration", () => {
    for (const key of KEYS.slice(0, 100)) expect(orderOf(key).at(-1)).toBe("spare");
    const spares = ["x", "y", "z"].map((route) => ({ route, weight: 0 }));
    for (const key of KEYS.slice(0, 100)) expect(orderOf(key, spares)).toEqual(["x", "y", "z"]);
  });

  it("accepts a long key without delay", () => {
    expect(orderOf("k".repeat(30_000_000))).toHaveLength(4);
  });
});
