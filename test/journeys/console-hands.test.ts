import type { BrowserContext, BrowserContextOptions, Locator, Page } from "playwright-core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { shows } from "../support/chromium.ts";
import { asPerson, becomeOperator, choose, PASSWORD, signUp, useConsole } from "../support/console.ts";
import { completion, delta, event } from "../support/upstream.ts";

// The input of real people: double clicks, the keyboard, a phone, scrolling, typed addresses.

const site = useConsole();
let context: BrowserContext;
let page: Page;

async function open(options: BrowserContextOptions = {}) {
  await context?.close();
  ({ context, page } = await site.open({ locale: "en-GB", ...options }));
}
beforeEach(() => open());
afterEach(() => context.close());

const person = (method: string, path: string, body?: unknown) => asPerson(context, site.service, method, path, body);
const create = async (name: string): Promise<string> =>
  (await person("POST", "/agents", { name, model_id: "lab/small", run_prompt: "Say hello" })).id;
const focused = () =>
  page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.tagName);
const openOnPhone = () => open({ viewport: { width: 390, height: 700 } });

it("a double click creates one agent, one run and one endpoint", async () => {
  await signUp(context, site.service, "double@example.com");
  await page.goto(`${site.service.url}/agents/new`);
  await page.getByLabel("Name", { exact: true }).fill("Once");
  await page.getByLabel("Task of each run").fill("Say hello");
  await page.getByRole("button", { name: "Create agent" }).dblclick();
  await page.getByRole("heading", { name: "Once", level: 1 }).waitFor();
  await page.waitForLoadState("networkidle");
  const { agents } = await person("GET", "/agents");
  expect(agents).toHaveLength(1);
  await page.getByRole("button", { name: "Run now" }).dblclick();
  await page.getByRole("heading", { name: "Run of Once" }).waitFor();
  await page.waitForLoadState("networkidle");
  expect((await person("GET", `/agents/${agents[0].id}/runs`)).runs).toHaveLength(1);
  await page.goto(`${site.service.url}/developers/webhooks`);
  await page.getByRole("button", { name: "New endpoint" }).first().click();
  await page.getByLabel("Address").fill("https://example.com/hook");
  await page.getByRole("button", { name: "Create endpoint" }).dblclick();
  await page.getByRole("textbox", { name: "Signing secret" }).waitFor();
  await page.waitForLoadState("networkidle");
  expect((await person("GET", "/webhook-endpoints")).webhook_endpoints).toHaveLength(1);
});

it("a purchase in progress cannot be dismissed, and Escape does not discard a key that is shown once", async () => {
  await signUp(context, site.service, "escape@example.com");
  await page.goto(`${site.service.url}/billing?top_up=true`);
  const gate = Promise.withResolvers<void>();
  await context.route(/\/billing\/purchase$/, async (route) => {
    await gate.promise;
    await route.continue();
  });
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Buy tokens" }).click();
  for (const name of ["Cancel", "Close"])
    await expect.poll(() => dialog.getByRole("button", { name, exact: true }).isDisabled()).toBe(true);
  for (let times = 0; times < 3; times += 1) await page.keyboard.press("Escape");
  gate.resolve();
  await dialog.getByText("Your account has 6,250,000 more tokens.").waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });

  await page.goto(`${site.service.url}/developers/keys`);
  await page.getByRole("button", { name: "New key" }).first().click();
  await page.getByLabel("Name").fill("Program");
  await page.keyboard.press("Enter");
  const key = page.getByRole("textbox", { name: "API key" });
  await key.waitFor();
  for (let times = 0; times < 3; times += 1) await page.keyboard.press("Escape");
  expect(await key.inputValue()).toMatch(/^purser_live_/);
  await page.getByRole("button", { name: "I have copied it" }).click();
  await dialog.waitFor({ state: "detached" });
});

it("a date of the ledger's filter can be typed", async () => {
  await signUp(context, site.service, "dates@example.com");
  await page.goto(`${site.service.url}/billing?tab=ledger`);
  await page.getByLabel("From").focus();
  await page.keyboard.type("11112026", { delay: 20 });
  await page.waitForURL(/from=2026-11-11/);
  expect(await page.getByLabel("From").inputValue()).toBe("2026-11-11");
});

it("a long answer stays above the composer while it grows, and lets a reader scroll up", async () => {
  await signUp(context, site.service, "scroll@example.com");
  const id = await create("Talker");
  let next = Promise.withResolvers<void>();
  site.upstream.answer(async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const part of ["first", "second", "third"]) {
      for (let line = 1; line <= 40; line += 1) response.write(delta(`The ${part} part, line ${line}.\n\n`));
      await next.promise;
    }
    response.write(event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }));
    response.end("data: [DONE]\n\n");
  });
  const goOn = () => {
    const { resolve } = next;
    next = Promise.withResolvers();
    resolve();
  };
  await page.goto(`${site.service.url}/agents/${id}/chat`);
  await page.getByLabel("Your message").fill("Tell me everything.");
  await page.keyboard.press("Enter");
  const composer = page.getByLabel("Your message");
  const isAbove = async (line: string) => {
    const [text, field] = await Promise.all([
      page.getByText(line, { exact: true }).boundingBox(),
      composer.boundingBox(),
    ]);
    return text !== null && field !== null && text.y > 0 && text.y + text.height <= field.y;
  };
  await expect.poll(() => isAbove("The first part, line 40.")).toBe(true);
  goOn();
  await expect.poll(() => isAbove("The second part, line 40.")).toBe(true);
  await page.mouse.move(500, 300);
  await page.mouse.wheel(0, -800);
  await expect.poll(() => isAbove("The second part, line 40.")).toBe(false);
  const place = await page.evaluate(() => scrollY);
  goOn();
  await page.getByText("The third part, line 40.").waitFor();
  expect(await page.evaluate(() => scrollY)).toBe(place);
  goOn();
  await page.waitForURL(/thread=/);
  await page.getByRole("link", { name: "View run" }).waitFor();
  // The page's header grows by its new buttons, and the browser keeps the text in place.
  expect(Math.abs((await page.evaluate(() => scrollY)) - place)).toBeLessThan(50);
});

it("on a phone a wide table in a chat scrolls alone, and the menu closes after a choice", async () => {
  await openOnPhone();
  await signUp(context, site.service, "phone@example.com");
  const id = await create("Wide");
  const cells = Array.from({ length: 12 }, (_, column) => `column ${column}`).join(" | ");
  site.upstream.answer(completion(`| ${cells} |\n${"|-".repeat(12)}|\n| ${cells} |\n\n- [x] done`));
  await page.goto(`${site.service.url}/agents/${id}/chat`);
  await page.getByLabel("Your message").fill("Show me.");
  await page.keyboard.press("Enter");
  await page.getByRole("cell", { name: "column 11" }).first().waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  // The text is plain until it is parsed, and the stored answer is drawn again.
  await expect
    .poll(async () => {
      const [box, text] = await Promise.all(
        [page.getByText("☑"), page.getByText("done")].map((part) =>
          part.boundingBox({ timeout: 1000 }).catch(() => null),
        ),
      );
      return box !== null && text !== null && Math.abs((box?.y ?? 0) - (text?.y ?? 99)) < 6;
    })
    .toBe(true);

  await page.goto(`${site.service.url}/billing?tab=plans`);
  await page.getByRole("button", { name: "Menu" }).click();
  await page.getByRole("link", { name: "Billing" }).click();
  await expect.poll(() => page.getByRole("button", { name: "Menu" }).getAttribute("aria-expanded")).toBe("false");
});

it("right-to-left text is displayed from right to left, in answers and in fields", async () => {
  await signUp(context, site.service, "rtl@example.com");
  const id = await create("قارئ");
  site.upstream.answer(completion("مرحبا Purser 3.0!\n\n- البند الأول."));
  await page.goto(`${site.service.url}/agents/${id}/chat`);
  const composer = page.getByLabel("Your message");
  await composer.fill("متى؟");
  // The stored answer is drawn again, so an element may be missing for a moment.
  const readsFromRight = (text: Locator) =>
    expect
      .poll(() =>
        text.evaluate((element) => getComputedStyle(element).direction, null, { timeout: 1000 }).catch(() => ""),
      )
      .toBe("rtl");
  await readsFromRight(composer);
  await page.keyboard.press("Enter");
  const log = page.getByRole("log");
  await readsFromRight(log.getByText("Purser 3.0!"));
  await readsFromRight(log.getByRole("listitem"));
});

it("the focus returns to the button that opened a dialog, or to the content if the button is gone", async () => {
  await signUp(context, site.service, "focus@example.com");
  await person("POST", "/api-keys", { name: "Site" });
  await page.goto(`${site.service.url}/developers/keys`);
  await page.getByRole("button", { name: "Revoke Site" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Revoke key" }).press("Enter");
  await page.getByText("revoked", { exact: true }).waitFor();
  await expect.poll(focused).toBe("MAIN");

  await page.getByRole("button", { name: "New key" }).first().click();
  await page.getByLabel("Name").fill("Program");
  await page.keyboard.press("Enter");
  await expect.poll(focused).toBe("API key");

  await becomeOperator(context, site.service);
  await page.goto(`${site.service.url}/operator/users`);
  await page.getByRole("button", { name: "Manage focus@example.com" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("menuitem", { name: "Grant tokens" }).press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await expect.poll(focused).toBe("Manage focus@example.com");
});

it("a page ignores unknown values in its address, and Back does not lead to the sign-in page", async () => {
  await signUp(context, site.service, "address@example.com");
  await page.goto(`${site.service.url}/agents`);
  await shows(page, "No agents yet");
  await context.clearCookies();
  await page.goto(`${site.service.url}/billing?tab=nonsense&type=x`);
  await page.getByLabel("E-mail").fill("address@example.com");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("table").getByText("Free trial").waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: "Agents", level: 1 }).waitFor();
  await page.goto(`${site.service.url}/usage?days=8`);
  await shows(page, "Spent in 30 days");
});

it("a form shows its limits before it is sent: a key without rights, a top-up above the maximum, an expired key", async () => {
  await signUp(context, site.service, "limits@example.com");
  await page.goto(`${site.service.url}/billing?top_up=true`);
  await page.getByLabel("Amount in US dollars").fill("5000000");
  await shows(page, "The maximum is $999,999.99.");
  await page.goto(`${site.service.url}/billing?tab=purchases`);
  await shows(page, "625,000 tokens are worth $1.00.");
  await page.getByLabel("Threshold in tokens").fill("1250000");
  await shows(page, "Worth $2.00.");
  for (const [label, value] of Object.entries({ "Threshold in tokens": "9", "Dollars per top-up": "10" }))
    await page.getByLabel(label).fill(value);
  const cap = page.getByLabel("Most dollars per month");
  await cap.fill("5");
  await page.getByRole("button", { name: "Enable" }).click();
  expect(await cap.evaluate((field: HTMLInputElement) => field.validationMessage)).toBe("The minimum is $10.00.");
  await page.goto(`${site.service.url}/agents/new`);
  await page.getByLabel("Name", { exact: true }).fill("  ");
  await page.getByRole("button", { name: "Create agent" }).click();
  await shows(page, "Name must be text of 1 to 200 characters");

  const soon = new Date(Date.now() + 1000).toISOString();
  await person("POST", "/api-keys", { name: "Former", expires_at: soon });
  await expect
    .poll(async () => {
      await page.goto(`${site.service.url}/developers/keys`);
      await page.getByRole("row", { name: /Former/ }).waitFor();
      return page.getByText("expired", { exact: true }).count();
    })
    .toBe(1);
  expect(await page.getByRole("button", { name: "Rotate Former" }).count()).toBe(0);
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByLabel("Name").fill("Powerless");
  await choose(page.getByRole("dialog").getByRole("combobox", { name: "Rights" }), "My own choice");
  for (const area of await page.getByRole("dialog").getByRole("combobox").all()) {
    if ((await area.getAttribute("aria-label")) === null) continue;
    await area.click();
    await page.getByRole("option", { name: "None", exact: true }).click();
  }
  await shows(page, "Choose at least one right.");
  expect(await page.getByRole("button", { name: "Create API key" }).isDisabled()).toBe(true);
});

it("a person who has opened another page stays there when a run starts", async () => {
  await signUp(context, site.service, "elsewhere2@example.com");
  const id = await create("Slow");
  await page.goto(`${site.service.url}/agents/${id}`);
  const gate = Promise.withResolvers<void>();
  await context.route(/\/runs$/, async (route) => {
    await gate.promise;
    await route.continue();
  });
  const sent = page.waitForRequest((request) => request.method() === "POST");
  await page.getByRole("button", { name: "Run now" }).click();
  const request = await sent;
  await page.getByRole("link", { name: "Vault" }).click();
  await page.getByRole("heading", { name: "Vault", level: 1 }).waitFor();
  gate.resolve();
  expect((await (await request.response())?.finished()) ?? null).toBeNull();
  await page.waitForLoadState("networkidle");
  expect(new URL(page.url()).pathname).toBe("/vault");
});

it("an answer from another server is shown as an outage, and its text is not shown", async () => {
  await signUp(context, site.service, "hotel@example.com");
  const id = await create("Guest");
  await page.goto(`${site.service.url}/agents/${id}`);
  await page.getByText("No runs yet").waitFor();
  await context.route(/\/runs$/, (route) =>
    route.fulfill({ status: 200, contentType: "text/html", body: "<h1>Hotel</h1>" }),
  );
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByRole("alert").getByText("The service cannot be reached.").waitFor();
});

it("an unpaid plan is not shown as saved, and closing an invoice asks first", async () => {
  await signUp(context, site.service, "checkout@example.com");
  await page.goto(`${site.service.url}/billing?tab=plans`);
  const checkout_url = `${site.service.url}/docs`;
  await context.route(/\/billing\/subscription$/, (route) =>
    route.request().method() === "POST" ? route.fulfill({ json: { checkout_url } }) : route.continue(),
  );
  await page.evaluate(() => {
    new MutationObserver(() => {
      if (document.body.textContent.includes("Plan saved")) sessionStorage.setItem("said", "yes");
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  await page.getByRole("button", { name: "Subscribe: Pro", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Subscribe" }).click();
  await page.waitForURL(checkout_url);
  expect(await page.evaluate(() => sessionStorage.getItem("said"))).toBeNull();

  const invoice = { id: "0198aaaa-0000-7000-8000-000000000000", user_id: "u", tokens: 1, amount_cents: 700 };
  const rest = { currency: "usd", status: "open", collected_by: "operator", created_at: "2026-03-01T09:00:00Z" };
  const sent: string[] = [];
  await context.route(/\/admin\/invoices/, (route) => {
    if (route.request().method() === "PUT") sent.push(route.request().postData() ?? "");
    return route.fulfill({ json: { ...invoice, ...rest, invoices: [{ ...invoice, ...rest }], next_cursor: null } });
  });
  await becomeOperator(context, site.service);
  await page.goto(`${site.service.url}/operator/payments`);
  await page.getByRole("button", { name: "Void invoice" }).click();
  const dialog = page.getByRole("dialog", { name: "Void the invoice of $7.00?" });
  await dialog.waitFor();
  expect(sent).toEqual([]);
  await dialog.getByRole("button", { name: "Void invoice" }).click();
  await dialog.waitFor({ state: "detached" });
  expect(sent).toEqual(['{"status":"void"}']);
});

it("the page of a truncated mail link says so and offers a new link, and a long wait is shown in minutes", async () => {
  for (const [path, way] of Object.entries({ "/reset-password": "/forgot-password", "/verify-email": "/sign-up" })) {
    await page.goto(site.service.url + path);
    await page.getByRole("heading", { name: "This link is not complete" }).waitFor();
    await page.getByRole("link", { name: "Ask for a new one" }).click();
    await page.waitForURL(site.service.url + way);
  }
  const error = { code: "rate_limited", message: "No mail was sent: this address was asked for too often." };
  await context.route(/request-password-reset/, (route) =>
    route.fulfill({ status: 429, headers: { "Retry-After": "717" }, json: { error } }),
  );
  await page.goto(`${site.service.url}/forgot-password`);
  await page.getByLabel("E-mail").fill("ada@example.com");
  await page.getByRole("button", { name: "Send me a link" }).click();
  await shows(page, "You can try again in 12 minutes.");
});
