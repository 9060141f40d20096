import { describe, expect, test } from "vitest";
import { acceptedAt } from "../../../src/api/contract/accepted.ts";
import { createAgentSchema } from "../../../src/api/contract/agents.ts";
import { instantInput, listQuerySchema } from "../../../src/api/contract/common.ts";
import { createMessageRoute } from "../../../src/api/contract/messages.ts";
import { validationError } from "../../../src/api/contract/validation.ts";
import { z } from "../../../src/api/contract/zod.ts";

const messageOf = (schema: z.ZodType, value: unknown) => {
  const { error } = schema.safeParse(value);
  return validationError((error?.issues ?? []) as never, value, schema).message;
};
const agent = { name: "Scout", model_id: "m" };
const webFetch = (settings: object) => ({ ...agent, tools_config: { web_fetch: { enabled: true, ...settings } } });
const auth = (inject: unknown) => webFetch({ auth: [{ secret: "KEY", hosts: ["a.example"], inject }] });

describe("an error names the accepted values", () => {
  test.each<[unknown, string]>([
    [
      { ...agent, schedule_day_of_month: "31" },
      'schedule_day_of_month must be a whole number from 1 to 31, or "last", or null.',
    ],
    [
      { ...agent, schedule_day_of_month: 32 },
      'schedule_day_of_month must be a whole number from 1 to 31, or "last", or null.',
    ],
    [{ ...agent, schedule_time: 9 }, "schedule_time must be a time of day, HH:MM from 00:00 to 23:59, or null."],
    [{ ...agent, schedule_time: "9:00" }, "schedule_time must be a time of day, HH:MM from 00:00 to 23:59."],
    [
      { ...agent, schedule_interval: "hourly" },
      "schedule_interval must be one of daily, weekly, monthly, cron, once, or null.",
    ],
    [{ ...agent, is_active: "yes" }, "is_active must be true or false."],
    [{ ...agent, name: "" }, "name must be text of 1 to 200 characters that is not blank."],
    [{ ...agent, name: 5 }, "name must be text of 1 to 200 characters that is not blank."],
    [{ ...agent, description: "x".repeat(2001) }, "description must be text of at most 2000 characters, or null."],
    [{ ...agent, limits: { max_steps: 0 } }, "limits.max_steps must be a whole number from 1 to 200."],
    [
      { ...agent, limits: { max_cost_tokens_per_run: 0.5 } },
      "limits.max_cost_tokens_per_run must be a whole number of 1 or more, or null.",
    ],
    [{ ...agent, tools_config: [] }, "tools_config must be an object."],
    [webFetch({ hosts: [] }), "tools_config.web_fetch.hosts must be a list of 1 to 100 entries."],
    [webFetch({ hosts: ["https://a"] }), "tools_config.web_fetch.hosts[0] must be `host`, `host:port` or `*.host`."],
    [
      auth({ type: "cookie" }),
      "tools_config.web_fetch.auth[0].inject.type must be one of bearer, basic, header, query, hmac.",
    ],
    // of a union's alternatives, the one that the caller meant
    [
      auth({ type: "query", name: "" }),
      "tools_config.web_fetch.auth[0].inject.name must be 1 to 100 printable characters.",
    ],
    [auth({ type: "bearer", name: "x" }), "tools_config.web_fetch.auth[0].inject.name is not a field of this request."],
  ])("%j", (body, message) => {
    expect(messageOf(createAgentSchema, body)).toContain(message);
  });

  test("and names all unknown fields, up to a readable number", () => {
    expect(messageOf(createAgentSchema, { ...agent, id: "a", limits: {}, version: 1, last_run: null })).toBe(
      "id, version and last_run are not fields of this request. Remove them or correct their spelling.",
    );
    const many = Object.fromEntries(Array.from({ length: 1000 }, (_, nth) => [`f${nth}`, 1]));
    expect(messageOf(createAgentSchema, { ...agent, ...many })).toMatch(/^f0, f1, .*, f19 and others are not fields/);
  });

  test("of filters and instants, too", () => {
    expect(messageOf(listQuerySchema, { limit: "many" })).toBe("limit must be a whole number from 1 to 100.");
    const run = z.object({ run_id: z.uuid() });
    expect(messageOf(run, { run_id: "x" })).toMatch(/^run_id must be a UUID such as /);
    const from = z.object({ from: instantInput.optional() });
    const instant = "from must be an instant from 1970 to 9999, such as 2026-11-20T09:30:00Z.";
    expect([messageOf(from, { from: "yesterday" }), messageOf(from, { from: "1969-01-01T00:00:00Z" })]).toEqual([
      instant,
      instant,
    ]);
  });
});

describe("an error of a tool in Messages names the field at fault, and not the type of another kind of tool", () => {
  const schema = createMessageRoute.request.body.content["application/json"].schema;
  const bash = { type: "bash_20250124", name: "bash" };
  const own = { name: "f", input_schema: {} };
  test.each<[unknown, string]>([
    [{ ...bash, name: 5 }, "tools[0].name must be text, or null."],
    [{ ...bash, cache_control: "x" }, "tools[0].cache_control must be an object, or null."],
    [{ ...bash, cache_control: {} }, "tools[0].cache_control.type is required."],
    [{ ...own, name: "a b" }, "tools[0].name must be 1 to 64 letters, digits, _ and -."],
    [{ ...own, type: "custom", cache_control: "x" }, "tools[0].cache_control must be an object, or null."],
    [{ ...own, type: 5 }, "tools[0].type"],
    [{ name: "f" }, "tools[0].input_schema must be an object."],
    ["f", "tools[0] must be an object."],
  ])("%j", (tool, message) => {
    const request = { model: "m", max_tokens: 1, messages: [{ role: "user", content: "go" }], tools: [tool] };
    expect(messageOf(schema, request)).toContain(message);
  });
});

test("a key that every object has, such as constructor, is no field of a schema", () => {
  const rest = z.object({ name: z.string() }).catchall(z.number());
  for (const key of ["constructor", "toString", "__proto__"]) {
    expect(acceptedAt(rest, [key], {}), key).toBe("a number");
    expect(acceptedAt(z.object({ name: z.string() }), [key, "name"], {}), key).toBeNull();
  }
});
