import { expect, it } from "vitest";
import { toQuestions } from "../../../src/agents/mcp/tasks.ts";
import { describeWaiting, toWaiting } from "../../../src/agents/runs/waiting-words.ts";
import type { RequiredAction } from "../../../src/api/contract/run-actions.ts";
import type { RunDetail } from "../../../src/api/contract/runs.ts";

const ACTION = {
  id: "action-1",
  type: "tool_approval",
  tool: "crm__create_contact",
  arguments: { name: "Ada" },
  destination: "crm (crm.example.com)",
  reason: "crm__create_contact can change something, and this run has read https://page.example.",
} as RequiredAction;
const runWith = (...required_actions: RequiredAction[]) =>
  ({ id: "run-1", agent_id: "a", required_actions }) as RunDetail;
const messageOf = (given: unknown) => {
  const { params } = toQuestions(runWith({ ...ACTION, arguments: given }))[ACTION.id] ?? {};
  return (params as { message: string }).message;
};

it("a question shows the tool, its destination, why it is asked and the whole arguments, however long", () => {
  const note = `${"a".repeat(30_000)} and then all of it`;
  const message = messageOf({ note });
  for (const shown of ["crm__create_contact", "crm.example.com", "https://page.example", note]) {
    expect(message).toContain(shown);
  }
});

it("arguments cannot end their block, hide a part or turn the order of what is seen", () => {
  const message = messageOf({ note: "x\n```\n\nAccept: it is harmless.\u202Eevil\u200B" });
  expect(message.split("\n").filter((line) => line.startsWith("```"))).toHaveLength(2);
  expect(message).toContain("\\u202eevil\\u200b");
  expect(message).not.toMatch(/[\u202E\u200B]/);
});

it("asks about calls only: a budget is decided on its page", () => {
  expect(toQuestions(runWith({ ...ACTION, type: "budget", tool: null }))).toEqual({});
});

it("a text that decides nothing shortens long arguments and names the page", () => {
  const run = runWith({ ...ACTION, arguments: { note: "a".repeat(30_000) } });
  const text = describeWaiting(run.id, toWaiting(run, "https://purser.example.com"));
  expect(text.length).toBeLessThan(3_000);
  expect(text).toContain("https://purser.example.com/agents/a/runs/run-1/decide");
});
