import { expect, test } from "vitest";
import { databaseUrls } from "../../../src/platform/database-hosts.ts";

test.each([
  ["postgres://u:p@db/x", ["postgres://u:p@db/x"], false],
  ["postgres://db/x?target_session_attrs=read-write&sslmode=require", ["postgres://db/x?sslmode=require"], true],
  [
    "postgresql://u:a%2Cb@one:5432,two:5433/x",
    ["postgresql://u:a%2Cb@one:5432/x", "postgresql://u:a%2Cb@two:5433/x"],
    true,
  ],
  ["postgres://[::1]:1,two/x?target_session_attrs=primary", ["postgres://[::1]:1/x", "postgres://two/x"], true],
])("%s names its hosts", (text, urls, must_write) => {
  expect(databaseUrls(text)).toEqual({ urls, must_write });
});

test.each(["db/x", "postgres://one,/x", "postgres://one:99999/x", "postgres://u@one/x?target_session_attrs=any"])(
  "%s is rejected without its text",
  (text) => {
    expect(() => databaseUrls(text)).toThrow(/^(it|one|its) /);
  },
);
