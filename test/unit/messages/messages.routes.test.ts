import { describe, expect, it } from "vitest";
import { providerHeaders } from "../../../src/gateway/messages/messages.routes.ts";
import type { PurserError } from "../../../src/kernel/errors.ts";

const sent = (headers: Record<string, string>) => providerHeaders((name) => headers[name]);
const paramOf = (headers: Record<string, string>) => {
  try {
    return sent(headers);
  } catch (error) {
    return (error as PurserError).shape.param;
  }
};

describe("the headers of a caller for a provider with Anthropic's API", () => {
  it("are sent unchanged, with any name of a beta", () => {
    const betas = "interleaved-thinking-2025-05-14,claude-code-20250219,oauth-2025-04-20";
    const headers = { "anthropic-version": "2023-06-01", "anthropic-beta": betas };
    expect(sent(headers)).toEqual(headers);
  });

  it("may name 32 betas, in any spacing; without any, nothing is sent", () => {
    const names = Array.from({ length: 32 }, (_, n) => `beta_${n}.x`);
    expect(sent({ "anthropic-beta": names.join(" , ") })).toEqual({ "anthropic-beta": names.join(",") });
    expect(sent({ "anthropic-beta": " , ", "anthropic-version": "" })).toEqual({});
  });

  it.each<[attack: string, value: string]>([
    ["33 names", Array.from({ length: 33 }, (_, n) => `beta-${n}`).join(",")],
    ["thousands of names", "b,".repeat(4_000)],
    ["a name of 101 characters", "b".repeat(101)],
    ["another header's syntax", "a; q=1"],
    ["characters outside ASCII", "b\u00e9ta"],
    ["spaces in a name", "one two"],
    ["a line break", "one\r\nx-api-key: stolen"],
  ])("with %s are rejected by their name", (_attack, value) => {
    expect(paramOf({ "anthropic-beta": value })).toBe("anthropic-beta");
    const version = value.replaceAll(",", ";");
    expect(paramOf({ "anthropic-version": version })).toBe("anthropic-version");
  });
});
