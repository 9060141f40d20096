import { expect, test } from "vitest";
import { createLog } from "../../../src/platform/log.ts";
import { createOutage } from "../../../src/platform/outage.ts";

const refused = Object.assign(new Error("connect"), { code: "ECONNREFUSED" });
const full = Object.assign(new Error("could not extend file"), { code: "53100" });
const wrong = Object.assign(new Error("duplicate key"), { code: "23505" });

test.each([
  ["that is away", [refused, refused], ["away"]],
  ["whose disk is full", [full, full], ["disk_full"]],
  ["that is away because its disk is full", [refused, full, refused, full], ["away", "disk_full"]],
  ["that rejects a statement", [wrong], []],
])("a database %s has one log line for each cause, with what to do", (_, failures, expected) => {
  const lines: { state: string; msg: string }[] = [];
  const log = createLog("info", null, (line) => void lines.push(JSON.parse(line)));
  const outage = createOutage({ log, probe: async () => {} });
  for (const failure of failures) outage.failed(failure);
  outage.close();
  expect(lines.map(({ state }) => state)).toEqual(expected);
  for (const { state, msg } of lines) expect(msg).toMatch(state === "away" ? /Look at its server/ : /free space/);
});
