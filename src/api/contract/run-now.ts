import { putAgentSchema } from "./agents.ts";
import { json, textSchema } from "./common.ts";
import { routesOf } from "./routes.ts";
import {
  preferHeader,
  runDetailSchema,
  runInputSchema,
  runMetadataSchema,
  runPromptSchema,
  runSchema,
} from "./runs.ts";
import { z } from "./zod.ts";

/** A run that its caller starts: contract 6.5.3. */

const runNowSchema = z
  .strictObject({
    run_prompt: runPromptSchema
      .nullish()
      .openapi({ description: "what this run executes; without it, the agent's own run_prompt" }),
    model_id: textSchema(200)
      .min(1)
      .nullish()
      .openapi({ description: "the model of this run in place of the agent's" }),
    input: runInputSchema.nullish(),
    metadata: runMetadataSchema.nullish(),
    draft: putAgentSchema.nullish().openapi({
      description:
        "changes of the agent that are not saved, as PUT takes them; `is_active` and schedule_* change nothing. The run tests them: its `trigger` is `test`, and it is billed, but delivers nothing, makes no notice of its end and counts for no schedule",
    }),
  })
  .openapi("RunNow");

export const runNow = routesOf("Runs").post("/api/v1/agents/{id}/runs", {
  summary: "Run the agent now, without waiting for its schedule",
  scope: "agents:write",
  optional_body: runNowSchema,
  headers: preferHeader,
  answers: {
    200: json(runDetailSchema, "the finished run, with `Prefer: wait`"),
    202: {
      ...json(runSchema, "the queued run; `Location` is its address"),
      headers: z.object({ Location: z.string() }),
    },
  },
  fails: [402, 409],
});
