import { putAgentSchema } from "./agents.ts";
import { textSchema } from "./common.ts";
import { routesOf } from "./routes.ts";
import { preferHeader, runInputSchema, runMetadataSchema, runPromptSchema, startedRunAnswers } from "./runs.ts";
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
    schedule_id: z.uuid().nullish().openapi({
      description:
        "the schedule of the agent that the run belongs to, as `POST …/schedules/{schedule_id}/run` does; its `run_prompt` and `input` are used where this body gives none",
    }),
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
  answers: startedRunAnswers,
  fails: [402, 409],
});
