import { type AddressInfo, createServer } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLog } from "../../../src/platform/log.ts";
import { createMailer, type Mailer } from "../../../src/platform/mail.ts";
import { type MailServer, startMailServer } from "../../support/mail-server.ts";

let server: MailServer;
let mailer: Mailer;
let logged: { msg: string; smtp_status?: number; try?: number }[];
beforeEach(async () => {
  server = await startMailServer({ user: "purser", password: "p@ss/word" });
  logged = [];
});
afterEach(async () => {
  await mailer.close();
  await server.stop();
});

function open(credentials: string): void {
  const log = createLog("info", null, (line) => void logged.push(JSON.parse(line)));
  const smtp_url = server.url.replace("//", `//${credentials}@`);
  mailer = createMailer({ smtp_url, from: "Purser <purser@example.com>" }, log);
}
const mailTo = (to: string) => mailer.send({ to, subject: "Héllo", text: "Grüße\nhttps://a.example/#x", link: "" });

describe("mail", () => {
  it("signs in with the name and password of SMTP_URL, and arrives unchanged", async () => {
    open("purser:p%40ss%2Fword");
    mailTo("ada@example.org");
    await expect.poll(() => server.received.length).toBe(1);
    expect(server.received[0]).toMatchObject({ from: "purser@example.com", to: ["ada@example.org"] });
    expect(server.received[0]?.link).toBe("https://a.example/#x");
    expect(logged).toEqual([]);
  });

  it("that is rejected permanently is not sent again, and the log has the server's code but not the recipient", async () => {
    open("purser:p%40ss%2Fword");
    server.refuse(550);
    mailTo("ada@example.org");
    await expect.poll(() => logged).toMatchObject([{ msg: "a mail was not sent", smtp_status: 550, try: 1 }]);
    await mailer.close();
    expect(server.received).toEqual([]);
    expect(JSON.stringify(logged)).not.toContain("ada@");
  });

  it("with a wrong password is reported in the log, without the password", async () => {
    open("purser:hunter2");
    mailTo("ada@example.org");
    await expect.poll(() => logged.length).toBe(1);
    expect(logged[0]).toMatchObject({ smtp_status: 535 });
    expect(JSON.stringify(logged)).not.toContain("hunter2");
  });

  it("is not taken as sent if the server says yes to something else", async () => {
    const confused = createServer((socket) => void socket.on("error", () => {}).write("250 OK\r\n"));
    await new Promise<void>((resolve) => confused.listen(0, "127.0.0.1", resolve));
    const { port } = confused.address() as AddressInfo;
    mailer = createMailer({ smtp_url: `smtp://127.0.0.1:${port}`, from: "purser@example.com" }, createLog("silent"));
    const result = await mailer.trySend({ to: "ada@example.org", subject: "Hello", text: "Hello", link: "" }, 1);
    expect(result).toEqual({ status: null, error: "EPROTOCOL" });
    await new Promise((resolve) => confused.close(resolve));
  });

  it("treats an address with any content as one address", async () => {
    open("purser:p%40ss%2Fword");
    mailTo("ada@example.org, eve@evil.example");
    mailTo("grace@example.org");
    await expect.poll(() => server.to("grace@example.org").length).toBe(1);
    expect(server.to("eve@evil.example")).toEqual([]);
  });

  it("is not waited for between its attempts when the service stops", { retry: 2 }, async () => {
    open("purser:p%40ss%2Fword");
    server.refuse(451, 451, 451);
    mailTo("ada@example.org");
    await expect.poll(() => logged.length, { timeout: 5_000 }).toBe(2); // the third attempt is four seconds away
    const started = performance.now();
    await mailer.close();
    expect(performance.now() - started).toBeLessThan(3_000);
    expect(logged).toHaveLength(2);
  });
});
