import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openBrowser } from "../support/browser.ts";
import { type MailServer, startMailServer } from "../support/mail-server.ts";
import { metricsOf } from "../support/metrics.ts";
import { type Service, startService } from "../support/service.ts";

const PASSWORD = "correct horse battery";
const NEW_PASSWORD = "another horse entirely";
const PUBLIC_URL = "https://purser.example";

let mails: MailServer;
let service: Service;
beforeAll(async () => {
  mails = await startMailServer();
  service = await startService({
    env: {
      PURSER_TEST_CLOCK: "2026-03-01T00:00:00Z",
      PURSER_PUBLIC_URL: PUBLIC_URL,
      PURSER_TRUSTED_PROXIES: "127.0.0.0/8",
      SMTP_URL: mails.url,
      MAIL_FROM: "Purser <purser@example.com>",
    },
  });
});
afterAll(async () => {
  await service.stop();
  await mails.stop();
});
afterEach(() => {
  mails.received.splice(0);
  tests += 1;
});

let sequence = 0;
const newAddress = () => {
  sequence += 1;
  return `person${sequence}@example.org`;
};
/** Each test has its own client address, because limits count by client. */
let tests = 0;
const browser = () => {
  const opened = openBrowser(service.url, PUBLIC_URL);
  const headers = { Origin: PUBLIC_URL, "X-Forwarded-For": `192.0.2.${tests}` };
  return { ...opened, post: (path: string, body?: unknown) => opened.post(path, body, headers) };
};
const signUp = (email: string, password?: string) => browser().post("/auth/sign-up/email", { email, password });
const signIn = (email: string, password = PASSWORD) => browser().post("/auth/sign-in/email", { email, password });
const verify = (token: string, by = browser(), password = PASSWORD) =>
  by.post("/auth/verify-email", { token, password });
const askReset = (email: string) => browser().post("/auth/request-password-reset", { email });
const reset = (token: string, new_password = NEW_PASSWORD, by = browser()) =>
  by.post("/auth/reset-password", { token, new_password });
const users = async () =>
  (await service.admin.get("/api/v1/admin/users?limit=100")).body.users as { id: string; email: string }[];

/** The link of the `count`th mail for an address, once it has arrived. */
async function linkTo(email: string, count = 1): Promise<{ page: string; token: string; text: string }> {
  await expect.poll(() => mails.to(email).length).toBe(count);
  const { link = "", text = "" } = mails.to(email).at(-1) ?? {};
  const [page = "", token = ""] = link.split("#token=");
  return { page, token, text };
}
async function verified(): Promise<string> {
  const email = newAddress();
  await signUp(email);
  expect((await verify((await linkTo(email)).token)).status).toBe(201);
  return email;
}

describe("signing up by mail (contract 3)", () => {
  it("creates no user and grants nothing before the link is opened, and then signs in with the trial", async () => {
    const email = newAddress();
    const asked = await signUp(email);
    expect([asked.status, asked.body]).toEqual([202, { status: "link_sent", delivery: "mail" }]);
    expect(asked.headers.getSetCookie()).toEqual([]);
    const { page, token, text } = await linkTo(email);
    expect(page).toBe(`${PUBLIC_URL}/verify-email`);
    expect(text).toContain("From: Purser <purser@example.com>");
    expect(mails.to(email)[0]?.from).toBe("purser@example.com");
    expect((await users()).map((user) => user.email)).not.toContain(email);
    expect((await signIn(email)).body.error.code).toBe("invalid_credentials");

    const here = browser();
    expect((await verify(token, here)).status).toBe(201);
    expect((await here.get("/users/me")).body).toMatchObject({ email, token_balance: 625_000, is_trial: true });
    expect((await signIn(email)).status).toBe(200);
  });

  it("a link works once", async () => {
    const email = newAddress();
    await signUp(email);
    const { token } = await linkTo(email);
    const answers = await Promise.all([verify(token), verify(token), verify(token)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 400, 400]);
    expect((await users()).filter((user) => user.email === email)).toHaveLength(1);
  });

  it("pre-hijack: an attacker who signs up with the victim's address cannot set its password", async () => {
    const email = newAddress();
    expect((await signUp(email, "the attacker's own")).status).toBe(202);
    const { token } = await linkTo(email);
    const without = await browser().post("/auth/verify-email", { token });
    expect([without.status, without.body.error.param]).toEqual([400, "password"]);
    expect((await verify(token, browser(), "the victim's own")).status).toBe(201);
    expect((await signIn(email, "the attacker's own")).status).toBe(401);
    expect((await signIn(email, "the victim's own")).status).toBe(200);
  });

  it("the first opened link of two creates the account, and ends the other", async () => {
    const email = newAddress();
    await signUp(email);
    const first = await linkTo(email, 1);
    await signUp(email);
    const second = await linkTo(email, 2);
    expect((await verify(second.token, browser(), "second password here")).status).toBe(201);
    expect((await verify(first.token, browser(), "first password here")).body.error.param).toBe("token");
    expect((await signIn(email, "second password here")).status).toBe(200);
    expect((await signIn(email, "first password here")).status).toBe(401);
  });

  it("a link is valid for 24 hours", async () => {
    const [late, punctual] = [newAddress(), newAddress()];
    await signUp(late);
    await signUp(punctual);
    const { now } = (await service.admin.get("/api/v1/admin/clock")).body;
    const setClock = (ms: number) =>
      service.admin.request("PUT", "/api/v1/admin/clock", { now: new Date(Date.parse(now) + ms).toISOString() });
    const [late_link, punctual_link] = [await linkTo(late), await linkTo(punctual)];
    await setClock(24 * 3_600_000 - 1000);
    expect((await verify(punctual_link.token)).status).toBe(201);
    await setClock(24 * 3_600_000);
    const refused = await verify(late_link.token);
    expect([refused.status, refused.body.error.param]).toEqual([400, "token"]);
  });

  it("only the owner of an address learns that it has an account; the answer to a sign-up does not show it", async () => {
    const email = await verified();
    const known = await signUp(email);
    const unknown = await signUp(newAddress());
    expect([known.status, known.body]).toEqual([unknown.status, unknown.body]);
    const { page, token, text } = await linkTo(email, 2);
    expect([page, token]).toEqual([`${PUBLIC_URL}/sign-in`, ""]);
    expect(text).toContain("has an account already");
    expect((await signIn(email)).status).toBe(200);
  });

  it("flooding a mailbox: five mails of each kind an hour, and each attempt sends its mail or says that it did not", async () => {
    const [known, unknown] = [await verified(), newAddress()];
    await signUp(unknown);
    const answers = async (email: string, ask: (email: string) => ReturnType<typeof signUp>) => {
      const found = [];
      for (let index = 0; index < 6; index += 1) found.push(await ask(email));
      return found.map(({ status, body }) => [status, body.error?.message ?? body]);
    };
    const none_sent = expect.stringMatching(/^No mail was sent/);
    const sent = [202, { status: "link_sent", delivery: "mail" }];
    const sign_ups = [sent, sent, sent, sent, [429, none_sent], [429, none_sent]];
    // The earlier mail counts. Known and unknown addresses get the same answers.
    expect(await answers(known, signUp)).toEqual(sign_ups);
    expect(await answers(unknown, signUp)).toEqual(sign_ups);
    expect(await answers(known, askReset)).toEqual([sent, sent, sent, sent, sent, [429, none_sent]]);
    expect(await answers(unknown, askReset)).toEqual([sent, sent, sent, sent, sent, [429, none_sent]]);
    await expect.poll(() => [mails.to(known).length, mails.to(unknown).length]).toEqual([10, 5]);
  });

  it("flooding a mailbox by its other spellings uses the same token bucket", async () => {
    const name = `flooded${sequence}`;
    for (let index = 0; index < 5; index += 1) {
      expect((await signUp(`${name}+${index}@example.org`)).status).toBe(202);
    }
    expect((await signUp(`${name}@example.org`)).status).toBe(429);
  });

  it("a mail that the server rejects temporarily is sent again", async () => {
    mails.refuse(451);
    const email = newAddress();
    await signUp(email);
    expect((await verify((await linkTo(email)).token)).status).toBe(201);
  });
});

describe("a forgotten password (contract 3)", () => {
  it("is replaced by a link that works once, which ends all sessions and keeps API keys and tokens", async () => {
    const email = await verified();
    const old = browser();
    await old.post("/auth/sign-in/email", { email, password: PASSWORD });
    const key = (await old.post("/api-keys", { name: "kept" })).body.key;
    await askReset(email);
    const { page, token } = await linkTo(email, 2);
    expect(page).toBe(`${PUBLIC_URL}/reset-password`);

    const here = browser();
    expect((await reset(token, NEW_PASSWORD, here)).status).toBe(200);
    expect((await here.get("/users/me")).body.token_balance).toBe(625_000);
    expect((await old.get("/users/me")).body.error?.code).toBe("session_expired");
    expect((await service.as(key).get("/api/v1/users/me")).status).toBe(200);
    expect((await signIn(email)).status).toBe(401);
    expect((await signIn(email, NEW_PASSWORD)).status).toBe(200);
    expect((await reset(token, "a third password")).body.error.param).toBe("token");
  });

  it("can be set by a user whom the operator created", async () => {
    const email = newAddress();
    const made = await service.admin.post("/api/v1/admin/users", { email, trial: false });
    expect((await askReset(email)).body).toEqual({ status: "link_sent", delivery: "mail" });
    const here = browser();
    expect((await reset((await linkTo(email)).token, NEW_PASSWORD, here)).status).toBe(200);
    expect((await here.get("/users/me")).body).toMatchObject({ id: made.body.user.id, token_balance: 0 });
    expect((await signIn(email, NEW_PASSWORD)).status).toBe(200);
  });

  it("is replaced by one reset, which ends the earlier links", async () => {
    const email = await verified();
    await askReset(email);
    const first = await linkTo(email, 2);
    await askReset(email);
    const second = await linkTo(email, 3);
    expect((await reset(second.token)).status).toBe(200);
    expect((await reset(first.token, "somebody else's")).body.error.param).toBe("token");
  });

  it("has a link that is valid for an hour, and that does not work as a sign-up link", async () => {
    const email = await verified();
    await askReset(email);
    const { token } = await linkTo(email, 2);
    expect((await verify(token)).body.error.param).toBe("token");
    const { now } = (await service.admin.get("/api/v1/admin/clock")).body;
    const later = new Date(Date.parse(now) + 3_600_000).toISOString();
    await service.admin.request("PUT", "/api/v1/admin/clock", { now: later });
    expect((await reset(token)).body.error.param).toBe("token");
  });

  it("a link that was mailed to a former address of the user is invalid", async () => {
    const email = await verified();
    const { id } = (await users()).find((user) => user.email === email) ?? {};
    await askReset(email);
    const { token } = await linkTo(email, 2);
    await service.admin.request("PATCH", `/api/v1/admin/users/${id}`, { email: newAddress() });
    expect((await reset(token)).body.error.param).toBe("token");
  });

  it("an unknown address gets the same answer and no mail; a suspended or erased user cannot return by it", async () => {
    const email = await verified();
    const { id } = (await users()).find((user) => user.email === email) ?? {};
    await askReset(email);
    const { token } = await linkTo(email, 2);
    await service.admin.post(`/api/v1/admin/users/${id}/suspend`);
    expect((await reset(token)).body.error.code).toBe("account_suspended");
    await service.admin.request("DELETE", `/api/v1/admin/users/${id}`);
    expect((await reset(token)).body.error.param).toBe("token");
    const unknown = await askReset(email);
    expect([unknown.status, unknown.body]).toEqual([202, { status: "link_sent", delivery: "mail" }]);
    const other = newAddress();
    await signUp(other);
    await linkTo(other);
    expect(mails.to(email)).toHaveLength(2);
  });

  it("after an erasure the links of pending sign-ups with this address do not work", async () => {
    const email = newAddress();
    await signUp(email);
    const { token } = await linkTo(email);
    const made = await service.admin.post("/api/v1/admin/users", { email });
    const { id } = made.body.user;
    expect((await service.admin.request("DELETE", `/api/v1/admin/users/${id}`)).status).toBe(204);
    const late = await verify(token);
    expect([late.status, late.body.error.param]).toEqual([400, "token"]);
  });
});

describe("a mail that the mail server does not take (contract 3.1.2)", () => {
  const waiting = async (email: string) => {
    const db = await service.database.open();
    const text = "select id, attempts, user_id, mail::text as row from mail where email = $1";
    const rows = await db.query<{ id: string; attempts: number; user_id: string | null; row: string }>({
      text,
      values: [email],
    });
    await db.close();
    return rows;
  };
  const change = async (email: string, set: string) => {
    const db = await service.database.open();
    await db.query({ text: `update mail set ${set} where email = $1`, values: [email] });
    await db.close();
  };
  const triesOf = async (outcome: string) => {
    const text = await metricsOf(service.url);
    return Number(new RegExp(`purser_mail_tries_total\\{kind="link",outcome="${outcome}"\\} (\\d+)`).exec(text)?.[1]);
  };

  it("is stored and sent after a restart; its row has no link, and goes with the mail", async () => {
    const email = newAddress();
    const hourLater = "next_attempt_at = clock_timestamp() + interval '1 hour'";
    mails.refuse(451);
    await signUp(email);
    await expect.poll(() => waiting(email)).toMatchObject([{ attempts: 1, user_id: null }]);
    await change(email, hourLater);
    await service.restart();
    await change(email, "next_attempt_at = clock_timestamp()");
    const { token } = await linkTo(email);
    await expect.poll(() => waiting(email)).toEqual([]);
    expect((await verify(token)).status).toBe(201);
    mails.refuse(451);
    await askReset(email);
    await expect.poll(() => waiting(email)).toMatchObject([{ attempts: 1, user_id: expect.any(String) }]);
    const [stored] = await waiting(email);
    const { token: reset_token, text } = await linkTo(email, 2);
    expect(text).toContain(`Message-ID: <${stored?.id}@purser>`);
    for (const secret of [reset_token, PUBLIC_URL, "password"]) {
      for (const form of [secret, Buffer.from(secret).toString("hex")]) expect(stored?.row).not.toContain(form);
    }
  });

  it("is given up once its link is worthless or the server refuses it for good, and the metrics count each try", async () => {
    const before = { sent: await triesOf("sent"), retry: await triesOf("retry"), failed: await triesOf("failed") };
    const [refused, late] = [newAddress(), newAddress()];
    mails.refuse(550);
    await signUp(refused);
    await expect.poll(() => waiting(refused)).toEqual([]);
    mails.refuse(451);
    await signUp(late);
    await expect.poll(() => waiting(late)).toMatchObject([{ attempts: 1 }]);
    await change(late, "give_up_at = clock_timestamp() - interval '1 second'");
    await expect.poll(() => waiting(late)).toEqual([]);
    await signUp(newAddress());
    await expect.poll(() => triesOf("sent")).toBe(before.sent + 1);
    expect([await triesOf("retry"), await triesOf("failed")]).toEqual([before.retry + 1, before.failed + 2]);
    expect(mails.to(refused).concat(mails.to(late))).toEqual([]);
  });

  it("is not sent to a user who was erased meanwhile", async () => {
    const email = await verified();
    const { id } = (await users()).find((user) => user.email === email) ?? {};
    mails.refuse(451);
    await askReset(email);
    await expect.poll(() => waiting(email)).toMatchObject([{ attempts: 1, user_id: id }]);
    await service.admin.request("DELETE", `/api/v1/admin/users/${id}`);
    expect(await waiting(email)).toEqual([]);
    const other = newAddress();
    await signUp(other);
    await linkTo(other);
    expect(mails.to(email)).toHaveLength(1);
  });

  it("is sent by one of several nodes", async () => {
    const other = await service.anotherNode();
    const answer = mails.hold();
    const addresses = Array.from({ length: 5 }, newAddress);
    for (const email of addresses) await signUp(email);
    answer();
    for (const email of addresses) await linkTo(email);
    await expect.poll(async () => (await Promise.all(addresses.map(waiting))).flat()).toEqual([]);
    for (const email of addresses) expect(mails.to(email)).toHaveLength(1);
    await other.stop();
  });
});
