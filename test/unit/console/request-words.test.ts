import { expect, test } from "vitest";
import { callerName, type LoggedRequest } from "../../../console/src/request-words.ts";

const NOBODY = { api_key_id: null, api_key_name: null, run_id: null, agent_name: null };

test.each<[string, Partial<LoggedRequest>]>([
  ["Website", { api_key_id: "0190aaaa-0000-7000-8000-000000abcdef", api_key_name: "Website", run_id: "r" }],
  ["Key …abcdef", { api_key_id: "0190aaaa-0000-7000-8000-000000abcdef" }],
  ["Console", {}],
  ["Scout", { run_id: "r", agent_name: "Scout" }],
  ["An agent", { run_id: "r" }],
])("a request was made by: %s", (name, request) => {
  expect(callerName({ ...NOBODY, ...request } as LoggedRequest)).toBe(name);
});
