import { execFile } from "node:child_process";
import { createReadStream, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { parseCsv } from "../../src/account/ledger/csv.ts";
import type { ResultDelivery } from "../../src/api/contract/deliveries.ts";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { type MailServer, startMailServer } from "../support/mail-server.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import type { Client } from "../support/service.ts";
import { newPersonByMail } from "../support/sign-up.ts";
import { type Site, startSite } from "../support/sites.ts";
import { completion, fetching, type Reply } from "../support/upstream.ts";

// Each recipe of the guide, its examples unchanged, followed until its results have arrived. Only the models' answers are
// scripted. The clock goes forward from one recipe to the next.

const PUBLIC_URL = "https://purser.example";
const GUIDE = readFileSync("docs/guides/recipes.md", "utf8");

let lab: Lab;
let mails: MailServer;
let receiver: Receiver;
let site: Site;
let user: Client;
let folder: string;
let people = 0;
let MAIL: string;
let env: NodeJS.ProcessEnv;
const page = { body: "" };
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "purser-recipes-"));
  mails = await startMailServer();
  receiver = await startReceiver();
  site = await startSite({ "/ferries": page });
  lab = await startLab(undefined, {
    env: {
      PURSER_EGRESS_ALLOW: `${receiver.host},${site.host}`,
      PURSER_PUBLIC_URL: PUBLIC_URL,
      PURSER_TEST_CLOCK: "2026-01-21T12:00:00Z",
      PURSER_TRUSTED_PROXIES: "127.0.0.0/8",
      SMTP_URL: mails.url,
    },
  });
});
beforeEach(async () => {
  people += 1;
  MAIL = `reader${people}@example.org`;
  user = await newPersonByMail(lab.service, mails, {
    email: MAIL,
    origin: PUBLIC_URL,
    from: `192.0.2.${people}`,
    tokens: 1_000_000,
  });
  const hook = `${receiver.url}/results`;
  const given = {
    PURSER: lab.service.url,
    KEY: user.key,
    MODEL: "lab/plain",
    PAGE: `${site.url}/ferries`,
    MAIL,
    HOOK: hook,
  };
  env = { ...process.env, ...given };
  lab.upstream.requests.length = 0;
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await site.close();
  await receiver.close();
  await mails.stop();
  rmSync(folder, { recursive: true });
});

/** The code of a recipe in a language. */
function codeOf(recipe: string, language: "sh" | "ts"): string {
  const section = GUIDE.split(/^## /m).find((each) => each.startsWith(`${recipe}\n`)) ?? "";
  const blocks = section.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm"));
  return [...blocks].map(([, block]) => block).join("\n");
}

/** Runs a recipe's commands and returns what they print, and the agent that they made. */
async function follow(recipe: string): Promise<{ printed: string; AGENT: string }> {
  const script = `set -euo pipefail\n${codeOf(recipe, "sh")}\necho; echo $AGENT`;
  const { stdout } = await promisify(execFile)("bash", ["-c", script], { cwd: folder, env });
  const [AGENT = "", ...printed] = stdout.trim().split("\n").reverse();
  expect(AGENT, stdout).toMatch(/^[0-9a-f-]{36}$/);
  return { printed: printed.reverse().join("\n").trim(), AGENT };
}

const setClock = async (now: string) => {
  expect((await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now })).status).toBe(200);
};
/** Runs of an agent, oldest first. */
const runsOf = async (agent: string) =>
  (await user.get(`/api/v1/agents/${agent}/runs?limit=100`)).body.runs.toReversed();
const dueTimes = async (agent: string) =>
  (await runsOf(agent)).map(({ scheduled_for }: { scheduled_for: string }) => scheduled_for);
const endOf = (agent: string) => user.request("DELETE", `/api/v1/agents/${agent}`);

/** A model that reads the page and reports it in its own words. */
const reportPage: Reply = (response, request) => {
  const last = request.body.messages.at(-1);
  const [fare] = /\d+ euros/.exec(JSON.stringify(last.content)) ?? ["nothing"];
  const reply = last.role === "tool" ? completion(`The ferry costs ${fare}.`) : fetching(`${site.url}/ferries`);
  return reply(response, request);
};

test("the page watcher runs on weekdays only, and mails and posts the page once, and again only after it has changed", async () => {
  lab.upstream.answer(reportPage);
  const { printed, AGENT } = await follow("A page watcher for weekdays");
  const [thursday, friday, monday, tuesday] = ["22", "23", "26", "27"].map((day) => `2026-01-${day}T07:30:00.000Z`);
  expect(printed.split("\n").slice(0, 4)).toEqual([thursday, friday, monday, tuesday]);
  const arrived = () => ({
    mails: mails.to(MAIL).map(({ parts }) => /costs (\d+) euros/.exec(parts["text/plain"] ?? "")?.[1]),
    posts: receiver.received.map(({ body }) => /costs (\d+) euros/.exec(body)?.[1]),
  });
  const settled = async () => {
    const statuses = async () => {
      const { id } = (await runsOf(AGENT)).at(-1);
      const { deliveries } = (await user.get(`/api/v1/agents/${AGENT}/runs/${id}`)).body;
      return deliveries.map(({ status }: ResultDelivery) => status);
    };
    await expect.poll(statuses, { interval: 20 }).not.toContain("pending");
    return statuses();
  };

  page.body = "<p>Adult: 12 euros</p>";
  await setClock("2026-01-22T12:00:00Z");
  expect(await settled()).toEqual(["delivered", "delivered"]);
  expect(arrived()).toEqual({ mails: ["12"], posts: ["12"] });
  await setClock("2026-01-25T22:00:00Z");
  expect(await settled()).toEqual(["skipped", "skipped"]);
  expect(await dueTimes(AGENT)).toEqual([thursday, friday]);
  page.body = "<p>Adult: 14 euros</p>";
  await setClock("2026-01-26T12:00:00Z");
  expect(await settled()).toEqual(["delivered", "delivered"]);
  await setClock("2026-01-27T12:00:00Z");
  expect(await settled()).toEqual(["skipped", "skipped"]);
  expect(await dueTimes(AGENT)).toEqual([thursday, friday, monday, tuesday]);
  expect(arrived()).toEqual({ mails: ["12", "14"], posts: ["12", "14"] });

  const { key } = (await user.get(`/api/v1/agents/${AGENT}/webhook-key`)).body;
  for (const { body, headers, path } of receiver.received) {
    expect(path).toBe("/results");
    expect(new Webhook(key).verify(body, headers)).toMatchObject({ data: { schedule_name: "weekdays" } });
  }
  expect(mails.to(MAIL).map(({ subject }) => subject)).toEqual(Array(2).fill("Ferry watch: weekdays"));
  const prompts = lab.upstream.requests.map(({ body }) =>
    body.messages.findLast(({ role }: { role: string }) => role === "user"),
  );
  const reports = prompts.map(
    ({ content }) => /last report:[\s\S]*?(none|\d+ euros)/.exec(JSON.stringify(content))?.[1],
  );
  expect(reports).toEqual(["none", "12 euros", "12 euros", "14 euros"].flatMap((report) => [report, report]));
  await endOf(AGENT);
});

test("the typed extraction answers curl and the openai package with JSON of its schema", async () => {
  const contact = { name: "Ada", phone: "0123 456", wish: "offer" };
  lab.upstream.answer(completion(JSON.stringify(contact)));
  const { printed, AGENT } = await follow("Typed extraction, called as a function");
  expect(JSON.parse(printed)).toEqual(contact);
  const node = ["--input-type=module-typescript", "-e", codeOf("Typed extraction, called as a function", "ts")];
  const { stdout } = await promisify(execFile)(process.execPath, node, { env: { ...env, AGENT } });
  expect(stdout).toBe("Ada 0123 456 offer\n");
  expect((await runsOf(AGENT)).map(({ status }: { status: string }) => status)).toEqual(["succeeded", "succeeded"]);
  const { messages } = lab.upstream.requests.at(-1)?.body ?? {};
  expect(messages.at(-1).content).toContain("this mail:\nPlease send me a price for 40 m of rope. Ada, 0123 456");
});

test("the monthly report runs at 18:00 in Kolkata on the last day of January, February and March, and is mailed", async () => {
  lab.upstream.answer(completion("The books."));
  const { printed, AGENT } = await follow("A report on the last day of the month");
  const ends = ["2026-01-31", "2026-02-28", "2026-03-31"];
  const due = ends.map((day) => `${day}T12:30:00.000Z`);
  expect(printed.split("\n").slice(0, 3)).toEqual(due);
  await setClock("2026-04-01T00:00:00Z");
  expect(await dueTimes(AGENT)).toEqual(due);
  const prompts = lab.upstream.requests.map(({ body }) => JSON.stringify(body.messages));
  expect(prompts.map((prompt) => /Today is (\S+)\./.exec(prompt)?.[1])).toEqual(ends);
  await expect.poll(() => mails.to(MAIL).length).toBe(3);
  expect(new Set(mails.to(MAIL).map(({ subject }) => subject))).toEqual(new Set(["Month end: month end"]));
  await endOf(AGENT);
});

test("the two schedules of one agent run in their own time zones, each with its own input", async () => {
  const { printed, AGENT } = await follow("Two schedules of one agent");
  const runs = async (name: string) => {
    const { schedules } = (await user.get(`/api/v1/agents/${AGENT}/schedules`)).body;
    const { id } = schedules.find((schedule: { name: string }) => schedule.name === name);
    const found = (await runsOf(AGENT)).filter((run: { schedule_id: string }) => run.schedule_id === id);
    return Promise.all(
      found.map(async (run: { id: string }) => (await user.get(`/api/v1/agents/${AGENT}/runs/${run.id}`)).body),
    );
  };
  expect(printed.split("\n")).toEqual(["2026-04-01T04:00:00.000Z", "2026-04-03T22:00:00.000Z"]);
  await setClock("2026-04-05T12:00:00Z");
  const [hamburg, yokohama] = [await runs("Hamburg"), await runs("Yokohama")];
  expect(hamburg.map(({ scheduled_for }) => scheduled_for)).toEqual(
    ["01", "02", "03", "04", "05"].map((day) => `2026-04-${day}T04:00:00.000Z`),
  );
  expect(yokohama.map(({ scheduled_for }) => scheduled_for)).toEqual(
    ["03T22", "04T10", "04T22", "05T10"].map((hour) => `2026-04-${hour}:00:00.000Z`),
  );
  for (const run of hamburg) expect(run).toMatchObject({ status: "succeeded", input: { port: "Hamburg", crew: 6 } });
  for (const run of yokohama) expect(run).toMatchObject({ status: "succeeded", input: { port: "Yokohama", crew: 4 } });
  const asked = lab.upstream.requests.map(({ body }) => /duty list of ([^.]*) people/.exec(JSON.stringify(body))?.[1]);
  expect(asked).toContain("Hamburg for Friday, 2026-04-03, with 6");
  expect(asked).toContain("Yokohama for Saturday, 2026-04-04, with 4");
  await endOf(AGENT);
});

test("the batch has 200 runs, and its metadata and a word of one find them again", async () => {
  lab.upstream.answer((response, request) => {
    const [order] = /ORD-\d+/.exec(JSON.stringify(request.body.messages)) ?? [];
    return completion(`Thank you for ${order}.`)(response, request);
  });
  const { printed, AGENT } = await follow("A batch of 200 runs, found again");
  expect(printed).toBe("Thank you for ORD-1117.\nThank you for ORD-1042.");
  const [columns = [], ...rows] = await Array.fromAsync(parseCsv(createReadStream(join(folder, "july.csv"), "utf8")));
  expect(new Set(rows.map((row) => row[columns.indexOf("first_line")]))).toEqual(
    new Set(Array.from({ length: 200 }, (_, index) => `Thank you for ORD-${1001 + index}.`)),
  );
  expect(new Set(rows.map((row) => row[columns.indexOf("status")]))).toEqual(new Set(["succeeded"]));
  expect([rows.length, lab.upstream.requests.length]).toEqual([200, 200]);
  await endOf(AGENT);
});
