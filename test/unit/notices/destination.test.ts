import { expect, it } from "vitest";
import { urlProblem } from "../../../src/account/notices/destination.ts";
import { parseEgressAllow } from "../../../src/platform/net/address.ts";

const allowance = parseEgressAllow(["hooks.internal:8080", "10.1.0.0/16"]);

it.each([
  "https://example.com/hook",
  "https://example.com:8443/hook?tenant=5",
  "https://hooks.internal:8080/x",
  "http://hooks.internal:8080/x",
  "https://10.1.2.3/x",
  "https://93.184.215.14/",
])("an endpoint can have the URL %s", (url) => {
  expect(urlProblem(url, allowance)).toBeNull();
});

it.each([
  ["", "is not a URL"],
  ["example.com/hook", "is not a URL"],
  ["/hook", "is not a URL"],
  ["https://exa mple.com/", "is not a URL"],
  ["https://exam\tple.com/", "is not a URL"],
  ["http://example.com/hook", "must be https"],
  ["http://hooks.internal/x", "must be https"],
  ["ftp://example.com/", "must be https"],
  ["javascript:alert(1)", "must be https"],
  ["https://ada:lovelace@example.com/", "user name or password"],
  ["https://example.com:22/", "port 22"],
  ["https://example.com:6379/", "port 6379"],
  ["https://127.0.0.1/", "not on the public internet"],
  ["https://0x7f.1/", "not on the public internet"],
  ["https://10.2.0.1/", "not on the public internet"],
  ["https://169.254.169.254/latest/meta-data", "not on the public internet"],
  ["https://[::1]/", "not on the public internet"],
  ["https://[::ffff:127.0.0.1]/", "not on the public internet"],
])("an endpoint cannot have the URL %j: %s", (url, reason) => {
  expect(urlProblem(url, allowance)).toContain(reason);
});
