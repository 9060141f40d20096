import { expect, it } from "vitest";
import { slugOf, toolNames } from "../../../src/mcp/mcp-server.ts";

it.each([
  ["Daily Report", "daily_report"],
  ["  Späher №1! ", "spaher_no1"],
  ["日本", "agent"],
  ["x".repeat(200), "x".repeat(48)],
])("the slug of %j has letters, digits and _ only", (name, slug) => {
  expect(slugOf(name)).toBe(slug);
});

it("a name never passes from one agent to another that has the same slug", () => {
  const agents = ["11111111-0000-0000-0000-00000000000a", "11111111-0000-0000-0000-00000000000b"].map((id) => ({
    id,
    name: "Report",
  }));
  expect([...toolNames(agents).keys()]).toEqual(["run_report_0000000a", "run_report_0000000b"]);
  expect([...toolNames([...agents, { id: "c", name: "Other" }]).keys()]).toContain("run_other");
});
