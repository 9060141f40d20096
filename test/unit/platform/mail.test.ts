import { type AddressInfo, createServer } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSystemClock } from "../../../src/platform/lib/clock.ts";
import { createMailer, type Mailer } from "../../../src/platform/net/mail.ts";
import { createLog } from "../../../src/platform/telemetry/log.ts";
import { type MailServer, startMailServer } from "../../support/mail-server.ts";

const clock = createSystemClock();
let server: MailServer;
let mailer: Mailer;
let logged: { msg: string; smtp_status?: number }[];
beforeEach(async () => {
  server = await startMailServer({ user: "purser", password: "p@ss/word" });
  logged = [];
});
afterEach(async () => {
  await mailer.close();
  await server.stop();
});

function open(credentials: string): void {
  const log = createLog("info", null, { write: (line) => void logged.push(JSON.parse(line)) });
  const smtp_url = server.url.replace("//", `//${credentials}@`);
  mailer = createMailer({ smtp_url, from: "Purser <purser@example.com>" }, { log, clock });
}
const mailTo = (to: string, about = { try: 1, mail_id: "m1" }) =>
  mailer.trySend({ to, subject: "Héllo", text: "Grüße\nhttps://a.example/#x", link: "" }, about);

describe("mail", () => {
  it("signs in with the name and password of SMTP_URL, and arrives unchanged", async () => {
    open("purser:p%40ss%2Fword");
    expect(await mailTo("ada@example.org")).toEqual({ status: 250, error: null });
    expect(server.received[0]).toMatchObject({ from: "purser@example.com", to: ["ada@example.org"] });
    expect(server.received[0]?.link).toBe("https://a.example/#x");
    expect(logged).toEqual([]);
  });

  it("that is rejected is one line of the log with its ids and the server's code, but not the recipient", async () => {
    open("purser:p%40ss%2Fword");
    server.refuse(550);
    expect(await mailTo("ada@example.org", { try: 2, mail_id: "m2" })).toMatchObject({ status: 550 });
    expect(logged).toMatchObject([{ msg: "a mail was not sent", smtp_status: 550, try: 2, mail_id: "m2" }]);
    expect(server.received).toEqual([]);
    expect(JSON.stringify(logged)).not.toContain("ada@");
  });

  it("with a wrong password is reported in the log, without the password", async () => {
    open("purser:hunter2");
    await mailTo("ada@example.org");
    expect(logged[0]).toMatchObject({ smtp_status: 535 });
    expect(JSON.stringify(logged)).not.toContain("hunter2");
  });

  it("is not taken as sent if the server says yes to something else", async () => {
    const confused = createServer((socket) => void socket.on("error", () => {}).write("250 OK\r\n"));
    await new Promise<void>((resolve) => confused.listen(0, "127.0.0.1", resolve));
    const { port } = confused.address() as AddressInfo;
    mailer = createMailer(
      { smtp_url: `smtp://127.0.0.1:${port}`, from: "purser@example.com" },
      { log: createLog("silent"), clock },
    );
    const result = await mailer.trySend(
      { to: "ada@example.org", subject: "Hello", text: "Hello", link: "" },
      { try: 1 },
    );
    expect(result).toMatchObject({ status: null, error: "EPROTOCOL" });
    await new Promise((resolve) => confused.close(resolve));
  });

  it("treats an address with any content as one address", async () => {
    open("purser:p%40ss%2Fword");
    await mailTo("ada@example.org, eve@evil.example");
    await mailTo("grace@example.org");
    expect(server.to("grace@example.org")).toHaveLength(1);
    expect(server.to("eve@evil.example")).toEqual([]);
  });
});
