import { randomBytes, scrypt } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createOutbound } from "../../../src/platform/net/outbound.ts";
import { createResolver, type Resolve } from "../../../src/platform/net/resolver.ts";
import { heldDuring } from "../../support/held.ts";
import { startNameServer } from "../../support/name-server.ts";
import { startSite } from "../../support/sites.ts";

let server: Awaited<ReturnType<typeof startNameServer>>;
let folder: string;
let resolve: Resolve;

beforeAll(async () => {
  server = await startNameServer({ "a.example": "192.0.2.7", "half.silent.example": "192.0.2.8" });
  folder = mkdtempSync(join(tmpdir(), "purser-hosts-"));
  const hosts_file = join(folder, "hosts");
  writeFileSync(hosts_file, "# names\n10.0.0.5\tWiki.example wiki # ours\nfd00::5 wiki.example\nno address\n");
  resolve = createResolver({ bySystem: (name) => name === "named.localhost", servers: [server.address], hosts_file });
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

test.each([
  ["a.example", ["192.0.2.7"]],
  ["A.Example.", ["192.0.2.7"]],
  ["nobody.example", []],
  ["wiki.example", ["10.0.0.5", "fd00::5"]],
  ["wiki", ["10.0.0.5"]],
  ["localhost", ["127.0.0.1", "::1"]],
  ["deep.localhost", ["127.0.0.1", "::1"]],
])("%s resolves to %j", async (name, addresses) => {
  expect(await resolve(name)).toEqual(addresses);
});

test("names of the hosts file and the system are not sent to a name server", async () => {
  server.asked.length = 0;
  await resolve("wiki.example");
  await resolve("localhost");
  await resolve("named.localhost").catch(() => {});
  expect(server.asked).toEqual([]);
});

test("names that hang delay nothing else: no other names, files or password hashes", async () => {
  const hanging = Array.from({ length: 200 }, (_, nth) => resolve(`n${nth}.silent.example`));
  await expect.poll(() => server.asked.length).toBeGreaterThanOrEqual(200);
  let over = 0;
  for (const each of hanging) each.then(() => (over += 1));
  expect(await resolve("a.example")).toEqual(["192.0.2.7"]);
  expect((await readFile(join(folder, "hosts"))).length).toBeGreaterThan(0);
  expect(await promisify(scrypt)("password", randomBytes(16), 32)).toHaveLength(32);
  expect(over).toBe(0);
});

test("a server that does not answer for one address family delays the other by a second, not by its timeout", async () => {
  // The resolver expects faster answers from a server that it has used.
  const resolve = createResolver({
    bySystem: () => false,
    servers: [server.address],
    hosts_file: join(folder, "hosts"),
  });
  const began_ms = performance.now();
  expect(await resolve("half.silent.example")).toEqual(["192.0.2.8"]);
  expect(performance.now() - began_ms).toBeLessThan(4_000);
});

test("a list of 5,000,000 blocked names is searched in far less time than it takes to parse", {
  retry: 2,
}, async () => {
  const lines: string[] = Array(100_000).fill(`0.0.0.0 ads.wiki.example${" a".repeat(50)}`);
  const listed = [...lines, "10.0.0.5 wiki.example # not.wiki.example", "10.0.0.6 other wiki.example#"].join("\n");
  const hosts_file = join(folder, "blocked");
  writeFileSync(hosts_file, listed);
  const resolve = createResolver({ bySystem: () => false, servers: [server.address], hosts_file });
  const parsing_ms = await heldDuring(async () => listed.split("\n").map((line) => line.trim().split(/\s+/)));
  expect(await resolve("a.example")).toEqual(["192.0.2.7"]); // reads the file
  const held_ms = await heldDuring(async () => {
    expect(await resolve("a.example")).toEqual(["192.0.2.7"]);
  });
  expect(held_ms).toBeLessThan(parsing_ms / 4);
  expect(await resolve("wiki.example")).toEqual(["10.0.0.5", "10.0.0.6"]);
  expect([await resolve("not.wiki.example"), await resolve(".")]).toEqual([[], []]);
});

test("the check before a secret is opened and the request after it use one lookup, and the next request makes a new one", async () => {
  const site = await startSite({ "/": { body: "here" } });
  const answers = [["127.0.0.1"], ["127.0.0.1"]];
  const host = `twice.example:${site.port}`;
  const outbound = createOutbound({ allow: [host], resolve: async () => answers.shift() ?? [] });
  const url = new URL(`http://${host}/`);
  const request = { url: url.href, method: "GET", headers: {}, max_bytes: 100, timeout_ms: 5_000, max_redirects: 0 };
  expect(await outbound.refusal(url, new AbortController().signal)).toBeNull();
  expect((await outbound.request(request)).status).toBe(200);
  expect(answers).toHaveLength(1);
  expect((await outbound.request(request)).status).toBe(200);
  expect(answers).toHaveLength(0);
  await site.close();
});
