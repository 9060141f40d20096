import { expect, test } from "vitest";
import { createOutage } from "../../../src/platform/db/outage.ts";
import { createLog } from "../../../src/platform/telemetry/log.ts";

const refused = Object.assign(new Error("connect"), { code: "ECONNREFUSED" });
const full = Object.assign(new Error("could not extend file"), { code: "53100" });
/** With `dynamic_shared_memory_type = mmap`. */
const full_memory_file = Object.assign(new Error("could not resize"), { code: "53100", routine: "dsm_impl_mmap" });
const wrong = Object.assign(new Error("duplicate key"), { code: "23505" });

test.each([
  ["that is away", [refused, refused], ["away"]],
  ["whose disk is full", [full, full], ["disk_full"]],
  ["whose shared memory is files on a full disk", [full_memory_file], ["disk_full"]],
  ["that is away because its disk is full", [refused, full, refused, full], ["away", "disk_full"]],
  ["that rejects a statement", [wrong], []],
])("a database %s has one log line for each cause, with the remedy", (_, failures, expected) => {
  const lines: { state: string; msg: string }[] = [];
  const log = createLog("info", null, { write: (line) => void lines.push(JSON.parse(line)) });
  const outage = createOutage({ log, probe: async () => {} });
  for (const failure of failures) outage.failed(failure);
  outage.close();
  expect(lines.map(({ state }) => state)).toEqual(expected);
  for (const { state, msg } of lines) expect(msg).toMatch(state === "away" ? /Look at its server/ : /free space/);
});

test.each([
  ["53300", "It has no free connection, and a node needs 17"],
  ["28P01", "It rejects the login: look at the user, the password"],
  ["3D000", "It rejects the login"],
  ["CERT_HAS_EXPIRED", "Its certificate is not trusted"],
  ["57P01", "Look at its server and the network"],
])("the line of an outage by %s names the remedy", (code, advice) => {
  const lines: string[] = [];
  const log = createLog("info", null, { write: (line) => void lines.push(line) });
  const outage = createOutage({ log, probe: async () => {} });
  outage.failed(Object.assign(new Error("away"), { code }));
  outage.close();
  expect(lines.join()).toContain(`statements fail until it is back. ${advice}`);
});

test.each([
  ["shared memory", { code: "53100", routine: "dsm_impl_posix" }, /enlarge its \/dev\/shm/],
  ["temporary files", { code: "53400", routine: "FileWrite" }, /temp_file_limit/],
])("a query that exceeds the server's %s is no outage, and its line names the remedy", (_, fields, advice) => {
  const lines: { msg: string }[] = [];
  const log = createLog("info", null, { write: (line) => void lines.push(JSON.parse(line)) });
  const outage = createOutage({ log, probe: async () => {} });
  outage.failed(Object.assign(new Error("could not resize shared memory segment"), fields));
  expect(outage.state()).toBe("up");
  outage.close();
  expect(lines).toEqual([
    expect.objectContaining({ level: 50, code: fields.code, msg: expect.stringMatching(advice) }),
  ]);
});
