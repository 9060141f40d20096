import { expect, test } from "vitest";
import { databaseUrls } from "../../../src/platform/db/database-hosts.ts";

test.each([
  ["postgres://u:p@db/x", ["postgres://u:p@db/x"], false],
  ["postgres://db/x?target_session_attrs=read-write&sslmode=require", ["postgres://db/x?sslmode=verify-full"], true],
  ["postgres://db/x?sslmode=prefer", ["postgres://db/x?sslmode=verify-full"], false],
  ["postgres://db/x?sslmode=no-verify", ["postgres://db/x?sslmode=no-verify"], false],
  [
    "postgres://db/x?uselibpqcompat=true&sslmode=require",
    ["postgres://db/x?uselibpqcompat=true&sslmode=require"],
    false,
  ],
  ["postgres://u:p@/x?host=/run/pg", ["postgres://u:p@localhost/x?host=/run/pg"], false],
  ["postgres:///x?host=/run/pg", ["postgres:///x?host=/run/pg"], false],
  [
    "postgresql://u:a%2Cb@one:5432,two:5433/x",
    ["postgresql://u:a%2Cb@one:5432/x", "postgresql://u:a%2Cb@two:5433/x"],
    true,
  ],
  ["postgres://[::1]:1,two/x?target_session_attrs=primary", ["postgres://[::1]:1/x", "postgres://two/x"], true],
])("%s has its hosts", (text, urls, must_write) => {
  expect(databaseUrls(text)).toEqual({ urls, must_write });
});

test.each([
  "db/x",
  "postgres://one,/x",
  "postgres://one:99999/x",
  "postgres://u@one/x?target_session_attrs=any",
  "postgres://u:p@one/x?sslmode=bogus",
  "postgres://u:p@one/x?sslrootcert=/no/such/file",
])("%s is rejected, and the error does not quote it", (text) => {
  expect(() => databaseUrls(text)).toThrow(/^(it|one|its|the file of its) (?!.*:p@)/);
});
