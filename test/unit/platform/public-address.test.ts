import { describe, expect, it } from "vitest";
import { createPublicAddress } from "../../../src/platform/net/public-address.ts";

const address = (host: string, public_url: string | null = null) =>
  createPublicAddress({ public_url, host, port: 3000 });

describe("the service's public address", () => {
  it.each([
    ["http://127.0.0.1:3000", true],
    ["http://localhost:3000", true],
    ["http://[::1]:3000", true],
    ["https://localhost:3000", false],
    ["http://localhost:3001", false],
    ["http://localhost.evil.example:3000", false],
    ["http://localhost:3000/", false],
    ["http://user@localhost:3000", false],
    ["null", false],
    ["", false],
  ])("on loopback, %s is one of its addresses: %s", (origin, ours) => {
    expect(address("127.0.0.1").isOurs(origin)).toBe(ours);
  });

  it("with PURSER_PUBLIC_URL is only that one", () => {
    const known = address("127.0.0.1", "https://purser.example");
    expect([known.url(), known.secure, known.isOurs("https://purser.example")]).toEqual([
      "https://purser.example",
      true,
      true,
    ]);
    expect(known.isOurs("http://127.0.0.1:3000")).toBe(false);
    known.listeningAt("http://127.0.0.1:41234");
    expect(known.url()).toBe("https://purser.example");
  });

  it("on another host is only that host: a page at localhost belongs to another server", () => {
    const lan = address("192.168.1.5");
    expect([lan.isOurs("http://192.168.1.5:3000"), lan.isOurs("http://localhost:3000")]).toEqual([true, false]);
  });

  it("has the real port", () => {
    const any = createPublicAddress({ public_url: null, host: "::1", port: 0 });
    any.listeningAt("http://[::1]:41234");
    expect([any.url(), any.isOurs("http://localhost:41234")]).toEqual(["http://[::1]:41234", true]);
  });
});
