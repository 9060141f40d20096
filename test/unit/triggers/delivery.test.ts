import { expect, test } from "vitest";
import { keptHeaders, mapInput, parseBody, passesFilter } from "../../../src/agents/triggers/delivery.ts";

const FORM = "application/x-www-form-urlencoded";

test.each([
  ["a JSON object", "application/json", '{"a":1}', { a: 1 }],
  ["a JSON object without its type", "", '{"a":1}', { a: 1 }],
  ["a JSON object as text, as some services send it", "text/plain; charset=utf-8", '{"a":1}', { a: 1 }],
  ["a byte order mark before JSON", "application/json", '\ufeff{"a":1}', { a: 1 }],
  ["a JSON list", "application/json", "[1,2]", { body: [1, 2] }],
  ["a JSON text", "application/json", '"hello"', { body: "hello" }],
  ["no body", "application/json", "", {}],
  ["a form", FORM, "command=%2Fdeploy&text=a+b&tag=1&tag=2", { command: "/deploy", text: "a b", tag: ["1", "2"] }],
  [
    "GitHub's form",
    `${FORM}; charset=utf-8`,
    `payload=${encodeURIComponent('{"action":"opened"}')}`,
    { action: "opened" },
  ],
  ["a form whose payload is no JSON object", FORM, "payload=5&x=1", { payload: "5", x: "1" }],
  ["a text that is no JSON", "text/plain", "hello", undefined],
])("%s is read as an object", (_name, type, text, value) => {
  expect(parseBody(text, type)).toEqual(value);
});

const CONTENT = {
  value: {
    action: "opened",
    repository: { full_name: "acme/shop" },
    n: 0,
    labels: [{ name: "bug" }],
    "a.b": 1,
    none: null,
  },
  headers: { "x-github-event": "issues" },
};

test.each([
  [null, true],
  [{}, true],
  [{ action: "opened" }, true],
  [{ action: "closed" }, false],
  [{ action: ["closed", "opened"] }, true],
  [{ action: "opened", "repository.full_name": "acme/other" }, false],
  [{ "headers.x-github-event": "issues", "repository.full_name": "acme/shop" }, true],
  [{ "headers.X-GitHub-Event": "push" }, false],
  [{ event: "issues" }, true],
  [{ event: "push" }, false],
  [{ "labels.0.name": "bug" }, true],
  [{ "/a.b": 1 }, true],
  [{ n: "0" }, false],
  [{ n: 0 }, true],
  [{ none: null, missing: null }, true],
  [{ "constructor.name": "Object" }, false],
])("the filter %j passes: %s", (filter, passes) => {
  expect(passesFilter(filter, CONTENT)).toBe(passes);
});

test("an input_map takes fields and headers, and leaves out what the delivery lacks", () => {
  expect(mapInput(null, CONTENT)).toBe(CONTENT.value);
  const map = {
    event: "headers.x-github-event",
    repo: "repository.full_name",
    first: "/labels/0",
    gone: "issue.title",
  };
  expect(mapInput(map, CONTENT)).toEqual({ event: "issues", repo: "acme/shop", first: { name: "bug" } });
});

test("no header that proves the sender is kept", () => {
  const sent = {
    authorization: "Bearer secret",
    cookie: "a=b",
    "x-hub-signature-256": "sha256=…",
    "stripe-signature": "t=1",
    "x-shopify-hmac-sha256": "…",
    "x-gitlab-token": "…",
    "x-github-event": "push",
    "user-agent": "GitHub-Hookshot",
  };
  expect(keptHeaders(sent)).toEqual({ "x-github-event": "push", "user-agent": "GitHub-Hookshot" });
});
