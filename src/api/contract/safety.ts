import { json } from "./common.ts";
import { routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** The safety layer, to try and to measure: contract 7. */

const sanitizeRequestSchema = z
  .strictObject({
    content: z.string().openapi({ description: "the whole request has at most 1 MB" }),
    kind: z.enum(["html", "markdown", "text"]),
  })
  .openapi("SanitizeRequest");

const sanitizedSchema = z
  .object({
    text: z.string().openapi({ description: "what a model would be given, between its fences" }),
    verdict: z.object({
      injected: z.boolean().openapi({ description: "a passage was removed or marked, or hidden text instructed" }),
      suspicious: z.boolean().openapi({ description: "a doubtful passage stays in the text, between warnings" }),
      score: z
        .number()
        .min(0)
        .max(1)
        .openapi({ description: "from 0.5 up the content is taken to carry an instruction" }),
    }),
    removed: z
      .array(z.object({ technique: z.string(), excerpt: z.string() }))
      .openapi({ description: "what was taken out and why; the first 50" }),
    marked: z
      .array(z.object({ technique: z.string(), excerpt: z.string() }))
      .optional()
      .openapi({ description: "the doubtful passages, if there are any; the first 50" }),
    marker: z.string().openapi({ description: "the random mark of the fences and of the warnings" }),
  })
  .openapi("Sanitized");

export const sanitizeContent = routesOf("Safety").post("/api/v1/safety/sanitize", {
  summary: "Pass content through the layer that everything a tool brings back passes",
  scope: "any",
  body: sanitizeRequestSchema,
  answers: { 200: json(sanitizedSchema, "the sanitized content") },
  fails: [503],
});
