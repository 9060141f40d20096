import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ContentPart } from "../../../src/api/contract/completions.ts";
import { CATALOGUE } from "../../../src/gateway/models/catalogue.ts";
import { createModels } from "../../../src/gateway/models/models.service.ts";
import type { PartTokens } from "../../../src/gateway/models/models.types.ts";
import { heldInput } from "../../../src/gateway/models/token-count.ts";
import { modelOf, requestOf } from "./model-fixture.ts";

// Attack: content by reference, with a hold for its few bytes and a bill for its size.

const KEYS = ["OPENAI", "ANTHROPIC", "GOOGLE_GENERATIVE_AI", "MISTRAL", "XAI", "GROQ"];
const provider_keys = Object.fromEntries(KEYS.map((name) => [`${name}_API_KEY`, "k"]));
const models = createModels({ config: { providers: [], models: [], margin: 1, provider_keys } });

const picture: ContentPart = { type: "image_url", image_url: { url: "https://a.test/1.png", detail: "original" } };
const inline: ContentPart = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
const file: ContentPart = { type: "file", file: { file_id: "file-1" } };
const audio: ContentPart = { type: "input_audio", input_audio: { data: "AAAA", format: "mp3" } };

function held(content: ContentPart[], model = modelOf()) {
  const request = requestOf({ messages: [{ role: "user", content }] });
  const call = { model, request, max_output_tokens: 50, stream: false };
  return heldInput(call, Buffer.byteLength(JSON.stringify(request)));
}

/** A side in squares, rounded up. */
const squares = (side: number, of: number) => Math.ceil(side / of);

/** The billed tokens of a picture with these sides, by the provider's documented formula. */
const BILLS: Record<string, (width: number, height: number) => number> = {
  "gpt-6-luna": (w, h) => patches(w, h, { most: 30_000, factor: 1 }),
  "gpt-6.1-terra": (w, h) => patches(w, h, { most: 30_000, factor: 1 }),
  "gpt-6.1-sol": (w, h) => patches(w, h, { most: 30_000, factor: 1 }),
  "gpt-5.5": (w, h) => patches(w, h, { most: 10_000, factor: 1 }),
  "gpt-5.4-mini": (w, h) => patches(w, h, { most: 1_536, factor: 1.62 }),
  "gpt-5.4-nano": (w, h) => patches(w, h, { most: 1_536, factor: 2.46 }),
  "gpt-4.1-mini": (w, h) => patches(w, h, { most: 1_536, factor: 1.62 }),
  "gpt-4.1": tiles,
  "claude-fable-5-1": (w, h) => Math.min(squares(w, 28) * squares(h, 28), 4_784),
  "claude-opus-5-5": (w, h) => Math.min(squares(w, 28) * squares(h, 28), 4_784),
  "claude-sonnet-5-5": (w, h) => Math.min(squares(w, 28) * squares(h, 28), 4_784),
  "claude-haiku-5-5": (w, h) => Math.min(squares(w, 28) * squares(h, 28), 4_784),
  "claude-haiku-4-5-20251001": (w, h) => Math.min(squares(w, 28) * squares(h, 28), 1_568),
  "gemini-3.8-flash": () => 1_120,
  "gemini-3.5-flash": () => 1_120,
  "grok-4.3": (w, h) => (Math.min(squares(w, 448) * squares(h, 448), 6) + 1) * 256,
};

function patches(width: number, height: number, { most, factor }: { most: number; factor: number }): number {
  return Math.ceil(Math.min(squares(width, 32) * squares(height, 32), most) * factor);
}

/** Scaled into 2,048 × 2,048, then to a short side of 768, then cut into tiles of 512. */
function tiles(width: number, height: number): number {
  const fit = Math.min(1, 2_048 / Math.max(width, height));
  const [long, short] = [Math.max(width, height) * fit, Math.min(width, height) * fit];
  const scale = Math.min(1, 768 / short);
  return 85 + 170 * squares(Math.round(long * scale), 512) * squares(Math.round(short * scale), 512);
}

describe("the hold of a picture", () => {
  it("is never below the provider's bill, for a picture of any size", async () => {
    const side = fc.integer({ min: 1, max: 65_535 });
    await fc.assert(
      fc.asyncProperty(side, side, fc.constantFrom(...Object.keys(BILLS)), async (width, height, id) => {
        const model = models.find(id);
        if (model === null) throw new Error(`${id} is not in the catalogue`);
        for (const part of [picture, inline]) {
          expect((await held([part], model)).media_tokens).toBeGreaterThanOrEqual(
            BILLS[id]?.(width, height) ?? Infinity,
          );
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("is the rest of the context window if no bound is documented, for every model of the catalogue", async () => {
    for (const { id, supports } of CATALOGUE) {
      const model = models.find(id);
      if (model === null || !supports.vision || id in BILLS) continue;
      expect((await held([picture], model)).input_tokens).toBe(model.context_window);
    }
  });
});

it("the hold of a file or audio is the rest of the context window, or the provider's documented maximum", async () => {
  const unbounded = modelOf({ part_tokens: { image: null, file: null, audio: null } });
  for (const part of [file, audio, picture]) {
    expect((await held([part], unbounded)).input_tokens).toBe(unbounded.context_window);
    expect((await held([part, part, part], unbounded)).input_tokens).toBe(unbounded.context_window);
  }
  for (const { id, supports } of CATALOGUE.filter((entry) => entry.supports.files)) {
    const model = models.find(id);
    expect(supports.files && model !== null).toBe(true);
    if (model === null) continue;
    // Gemini 3: 1,000 pages of 560 tokens
    const least = id.startsWith("gemini-3") ? 560_000 : model.context_window;
    expect((await held([file], model)).input_tokens).toBeGreaterThanOrEqual(least);
  }
  expect(CATALOGUE.filter(({ supports }) => supports.audio)).toEqual([]);
});

it("the hold of a request never falls with more parts, and has a bound for the sum", async () => {
  const bound = fc.option(fc.integer({ min: 1, max: 200_000 }), { nil: null });
  const parts = fc.array(fc.constantFrom(picture, inline, file, audio), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(parts, fc.record({ image: bound, file: bound, audio: bound }), async (content, part_tokens) => {
      const model = modelOf({ part_tokens: part_tokens as PartTokens });
      const { input_tokens, media_tokens } = await held(content, model);
      const of = { image_url: part_tokens.image, file: part_tokens.file, input_audio: part_tokens.audio };
      const bounds = content.map(({ type }) => of[type as keyof typeof of]);
      const sum = bounds.reduce<number>((total, each) => total + (each ?? 0), 0);
      expect(media_tokens).toBeGreaterThanOrEqual(sum);
      if (bounds.includes(null)) expect(input_tokens).toBeGreaterThanOrEqual(model.context_window);
      else expect(media_tokens).toBe(sum);
      expect((await held(content.slice(1), model)).input_tokens).toBeLessThanOrEqual(input_tokens);
    }),
  );
});
