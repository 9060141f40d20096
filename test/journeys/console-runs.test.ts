import type { BrowserContext, Page } from "playwright-core";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { shows } from "../support/chromium.ts";
import { asPerson, becomeOperator, choose, signUp, unfoldAll, useConsole } from "../support/console.ts";
import { completion, delta, fetching, hanging, json } from "../support/upstream.ts";

// The console tells what happened in runs, and whom a change concerns.

const site = useConsole();
let context: BrowserContext;
let page: Page;
beforeEach(async () => {
  ({ context, page } = await site.open({ timezoneId: "Europe/Berlin" }));
});
afterEach(() => context.close());

const person = (method: string, path: string, body?: unknown) => asPerson(context, site.service, method, path, body);
const create = async (fields: object): Promise<string> =>
  (await person("POST", "/agents", { model_id: "lab/small", run_prompt: "Read the berths.", ...fields })).id;
async function run(id: string): Promise<string> {
  const { id: run_id } = await person("POST", `/agents/${id}/runs`);
  await expect.poll(async () => (await person("GET", `/agents/${id}/runs/${run_id}`)).finished_at).not.toBeNull();
  return run_id;
}
const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "07:30" };
/** A tool that cannot reach its page. */
const blocked = { web_fetch: { enabled: true } };
const blockedCall = fetching("http://127.0.0.1:1/berths");

it("a run with failed calls shows as succeeded with errors: on its page, in lists, in the filter and in the notices", async () => {
  await signUp(context, site.service, "errors@example.com");
  const id = await create({ name: "Harbour", system_prompt: "Be brief.", tools_config: blocked });
  site.upstream.answer(completion("All is well."));
  await run(id);
  site.upstream.answer(blockedCall, completion("I could not read it."));
  const run_id = await run(id);

  await page.goto(`${site.service.url}/agents/${id}/runs/${run_id}`);
  await shows(page, "The run succeeded with errors. 1 call of a tool failed: web_fetch (step 2).");
  await shows(page, "Be brief.");
  await shows(page, "Read the berths.");
  await page.goto(`${site.service.url}/agents`);
  await shows(page, "succeeded with errors");
  await page.goto(`${site.service.url}/agents/${id}`);
  const rows = page.getByRole("region", { name: "Runs" }).getByRole("row");
  await expect.poll(() => rows.count()).toBe(3);
  await choose(page.getByLabel("Status"), "any error");
  await page.waitForURL(/status=any_error/);
  await expect.poll(() => rows.count()).toBe(2);
  await page.goto(`${site.service.url}/notices`);
  await shows(page, "A run succeeded with errors");
  await page.goto(site.service.url);
  await page.getByRole("link", { name: "See what to do" }).click();
  await shows(page, "The run succeeded with errors.");
});

it("a failed run shows what the provider itself said", async () => {
  await signUp(context, site.service, "provider@example.com");
  const id = await create({ name: "Harbour" });
  site.upstream.answer(json({ error: { message: "The model is being moved." } }, 503));
  await page.goto(`${site.service.url}/agents/${id}/runs/${await run(id)}`);
  await shows(page, "The provider said (status 503):");
  // Above, and in the first of three steps.
  await expect.poll(() => page.getByText("The same error again.").count()).toBe(2);
  expect(await page.getByText("The model is being moved.").count()).toBe(2);
  expect(await page.getByText(/are charged/).count()).toBe(0);
});

it("“Run again” never appears where “Cancel run” was", async () => {
  await signUp(context, site.service, "late@example.com");
  const id = await create({ name: "Harbour" });
  for (const viewport of [
    { width: 1280, height: 800 },
    { width: 390, height: 800 },
  ]) {
    await page.setViewportSize(viewport);
    site.upstream.answer(hanging(delta("Be")));
    const { id: run_id } = await person("POST", `/agents/${id}/runs`);
    await page.goto(`${site.service.url}/agents/${id}/runs/${run_id}`);
    const cancel = await page.getByRole("button", { name: "Cancel run" }).boundingBox();
    await person("POST", `/agents/${id}/runs/${run_id}/cancel`);
    const again = page.getByRole("button", { name: "Run again" });
    await again.waitFor();
    const box = await again.boundingBox();
    if (cancel === null || box === null) throw new Error("a button is not on the page");
    const apart_x = box.x + box.width <= cancel.x || cancel.x + cancel.width <= box.x;
    const apart_y = box.y + box.height <= cancel.y || cancel.y + cancel.height <= box.y;
    expect(apart_x || apart_y).toBe(true);
  }
});

it("an edit sends only the changed fields, and leaves a paused schedule paused until “Resume schedule”", async () => {
  await signUp(context, site.service, "pause@example.com");
  const limits = { max_consecutive_failures: 1, max_cost_tokens_per_run: 1 };
  const id = await create({ name: "Harbour", ...daily, limits, tools_config: blocked });
  await run(id);
  await page.goto(`${site.service.url}/agents/${id}/edit`);
  await unfoldAll(page);
  await page.getByLabel("Description").fill("Reads berths.");
  await page.getByLabel("Steps per run").fill("7");
  const sent = page.waitForRequest((request) => request.method() === "PUT");
  await page.getByRole("button", { name: "Save agent" }).click();
  expect((await sent).postDataJSON()).toEqual({ description: "Reads berths.", limits: { max_steps: 7 } });
  await page.getByRole("button", { name: "Resume schedule" }).waitFor();
  expect(await person("GET", `/agents/${id}`)).toMatchObject({
    schedule_status: "paused",
    description: "Reads berths.",
  });
  await page.getByRole("button", { name: "Resume schedule" }).click();
  await expect.poll(async () => (await person("GET", `/agents/${id}`)).schedule_status).toBe("active");
});

it("the owner chooses what a failed call does to its run", async () => {
  await signUp(context, site.service, "choice@example.com");
  const id = await create({ name: "Harbour", tools_config: blocked });
  await page.goto(`${site.service.url}/agents/${id}/edit`);
  await unfoldAll(page);
  const tool = page.getByRole("region", { name: "Read the web" });
  await choose(tool.getByLabel("If a call fails"), "The run fails");
  await page.getByRole("button", { name: "Save agent" }).click();
  await page.getByRole("heading", { name: "Harbour", exact: true }).waitFor();
  const { tools_config } = await person("GET", `/agents/${id}`);
  expect(tools_config).toEqual({ web_fetch: { enabled: true, on_tool_failure: "fail" } });
  site.upstream.answer(blockedCall, completion("Never."));
  await page.goto(`${site.service.url}/agents/${id}/runs/${await run(id)}`);
  await shows(page, "Run failed: a tool failed");
  await shows(page, /^The model calls that were answered are charged: \$/);
  // The remedy is the one thing to do first.
  const kinds = page.locator("main").locator(".bg-accent");
  expect(await kinds.allTextContents()).toEqual(["Change the tools"]);
});

it("past due times show how their runs ended", async () => {
  await signUp(context, site.service, "due@example.com");
  const occurrence = {
    scheduled_for: "",
    status: "run",
    state: "run",
    reason: null,
    recorded_at: "2026-03-01T09:00:01Z",
  };
  const id = await create({ name: "Harbour", ...daily });
  const runs = [
    { status: "failed", has_errors: true },
    { status: "succeeded", has_errors: true },
    { status: "succeeded", has_errors: false },
    null,
  ];
  // The clock of the service is the real one, so no schedule is due in this test.
  await page.route(/\/occurrences/, (route) =>
    route.fulfill({
      json: {
        occurrences: runs.map((each, day) => ({
          ...occurrence,
          at: `2026-03-0${day + 1}T09:00:00.000Z`,
          run_id: "0190c0de-0000-7000-8000-000000000001",
          run: each,
        })),
        next_cursor: null,
      },
    }),
  );
  await page.goto(`${site.service.url}/agents/${id}?tab=schedule`);
  const table = page.getByRole("region", { name: "Occurrences" });
  await table.getByText("succeeded with errors", { exact: true }).waitFor();
  const results = await table.locator("tbody tr td:nth-child(2)").allTextContents();
  expect(results).toEqual(["failed", "succeeded with errors", "succeeded", "Ran, no longer kept"]);
});

it("“Delete secret” names the agents that use the secret", async () => {
  await signUp(context, site.service, "secret@example.com");
  for (const name of ["KEY", "SPARE"]) await person("POST", "/secrets", { name, value: "value-0123456789" });
  const auth = [{ secret: "key", hosts: ["example.com"], inject: { type: "bearer" } }];
  await create({ name: "Harbour", tools_config: { web_fetch: { enabled: true, auth } } });
  await create({ name: "Other" });
  await page.goto(`${site.service.url}/vault`);
  await page.getByRole("button", { name: "Delete KEY" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("This agent uses it:").waitFor();
  expect(await dialog.getByRole("listitem").allTextContents()).toEqual(["Harbour"]);
  await dialog.getByRole("button", { name: "Cancel" }).click();
  // The tooltip of the button that has the focus again can cover the other button.
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Delete SPARE" }).click();
  await dialog.getByText("No agent uses it.").waitFor();
});

describe("a new API key", () => {
  const scopes = async (name: string) =>
    (await person("GET", "/api-keys")).api_keys.find((key: { name: string }) => key.name === name).scopes;
  it("can only make completions by default, and offers other usual rights", async () => {
    await signUp(context, site.service, "rights@example.com");
    await page.goto(`${site.service.url}/developers/keys`);
    const dialog = page.getByRole("dialog");
    const make = async (name: string, preset: string | null) => {
      await page.getByRole("button", { name: "New key" }).first().click();
      await dialog.getByLabel("Name", { exact: true }).fill(name);
      if (preset !== null) await choose(dialog.getByLabel("Rights"), preset);
    };
    const finish = async () => {
      await dialog.getByRole("button", { name: "Create API key" }).click();
      await dialog.getByRole("button", { name: "I have copied it" }).click();
    };
    await make("one", null);
    await finish();
    expect(await scopes("one")).toEqual(["chat:read", "chat:write"]);
    await page.getByRole("cell", { name: "Completions only", exact: true }).waitFor();
    await make("two", "Read usage and billing");
    await finish();
    expect(await scopes("two")).toEqual(["billing:read"]);
    await make("three", "My own choice");
    await choose(dialog.getByLabel("Secrets"), "read");
    await finish();
    expect(await scopes("three")).toEqual(["chat:read", "chat:write", "secrets:read"]);
    await page.getByRole("cell", { name: "Completions and chat, Secrets (read)", exact: true }).waitFor();
    await make("four", "All rights");
    await finish();
    expect(await scopes("four")).toHaveLength(10);
  });
});

it("the balance in the sidebar says how many tokens running calls hold", async () => {
  await signUp(context, site.service, "held@example.com");
  const id = await create({ name: "Harbour" });
  site.upstream.answer(hanging(delta("Be")));
  const { id: run_id } = await person("POST", `/agents/${id}/runs`);
  await expect.poll(async () => (await person("GET", "/users/me")).balance.held).toBeGreaterThan(0);
  await page.goto(`${site.service.url}/agents`);
  await page
    .getByRole("complementary")
    .getByText(/held by running calls; what they do not use comes back/)
    .waitFor();
  await person("POST", `/agents/${id}/runs/${run_id}/cancel`);
});

it("the operator's log of acts names the user whom an act concerns", async () => {
  const user = await site.service.newUser();
  const { email } = (await user.get("/api/v1/users/me")).body;
  const grant = { amount_tokens: 5, source: "bonus", reason: "outage" };
  await site.service.admin.post(`/api/v1/admin/users/${user.user_id}/grants`, grant);
  await signUp(context, site.service, "reads-acts@example.com");
  await becomeOperator(context, site.service);
  await page.goto(`${site.service.url}/operator/acts`);
  const acts = page.getByRole("region", { name: "Log of acts" });
  const row = acts.getByRole("row").filter({ hasText: "Granted tokens" }).first();
  await row.getByRole("link", { name: email }).click();
  await page.getByRole("heading", { name: email }).waitFor();
});
