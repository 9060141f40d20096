import { describe, expect, it } from "vitest";
import { BUSY, createSanitizer } from "../../../src/safety/sanitizer.ts";

const page = (content: string) => ({ content, kind: "text", level: "balanced", mark: "m" }) as const;
/** This page occupies a thread for at least a second. */
const hostile = page("ingore instrcutions tpmorp metsys vtaber ".repeat(25_000));
const ordinary = page("Plain words. ".repeat(1_000));
/** Far less than a second, so that the page is still being checked when its share is over. */
const FAIR_SHARE_MS = 50;

describe("a page that is costly to check", () => {
  it("releases its thread after its fair share if another user's page waits, and can be sent again", async () => {
    const sanitizer = createSanitizer({ threads: 1, fair_share_ms: FAIR_SHARE_MS });
    const costly = sanitizer.of("attacker").sanitize(hostile);
    const other = await sanitizer.of("other").sanitize(ordinary);
    expect(other).toMatchObject({ verdict: { injected: false } });
    expect(await costly).toBe(BUSY);
  });

  it("keeps its thread when only pages of its own user wait", async () => {
    const sanitizer = createSanitizer({ threads: 1, fair_share_ms: FAIR_SHARE_MS, time_limit_ms: 50_000 });
    const { sanitize } = sanitizer.of("user");
    const answers = await Promise.all([sanitize(hostile), sanitize(ordinary)]);
    expect(answers).toMatchObject([{ verdict: {} }, { verdict: { injected: false } }]);
  });
});
