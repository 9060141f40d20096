import { describe, expect, it } from "vitest";
import { createSanitizer } from "../../src/safety/sanitizer.ts";
import { scoreOf } from "../support/score.ts";

const score = scoreOf("costly pages", "escapes");
const MARK = "5f".repeat(12);
const asked = (content: string) => ({ content, kind: "html" as const, level: "balanced" as const, mark: MARK });
const DECLARATIONS = "opacity:1;color:red;background:red;left:1;top:1;right:1;bottom:1;width:9;height:9;clip:x;font:x";

describe("a page that is costly to check", () => {
  it("does not block the service's own thread during its check", async () => {
    const { sanitize } = createSanitizer({ time_limit_ms: 50_000 }).of("u");
    let ticks = 0;
    const timer = setInterval(() => {
      ticks += 1;
    }, 5);
    const page = `<style>*,b{${DECLARATIONS}}</style>${"<b>".repeat(100_000)}`;
    expect(await sanitize(asked(page))).toMatchObject({ verdict: { injected: false } });
    clearInterval(timer);
    score.tried();
    // If this thread did the work, no timer would have fired.
    expect(ticks).toBeGreaterThan(5);
  });

  it("is given up at the time limit, and the next page is checked", async () => {
    const { sanitize } = createSanitizer({ time_limit_ms: 2_000 }).of("u");
    const page = `<style>*,b{${DECLARATIONS}}</style>${"<b>a! ".repeat(3_000_000)}`;
    score.tried();
    expect(await sanitize(asked(page))).toBeNull();
    const next = await sanitize(asked(`<p>${"Plain words. ".repeat(1_500)}`));
    expect(next).toMatchObject({ text: expect.stringContaining("Plain words.") });
  });
});
