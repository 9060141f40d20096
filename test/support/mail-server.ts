import type { AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";

export interface ReceivedMail {
  from: string;
  to: string[];
  text: string;
  /** The first link in the mail. */
  link: string;
}

export interface MailServer {
  url: string;
  received: ReceivedMail[];
  /** The mails to an address, oldest first. */
  to(address: string): ReceivedMail[];
  /** Answers the next messages with these SMTP codes, and does not accept them. */
  refuse(...codes: number[]): void;
  /** Answers no message until the returned function is called. */
  hold(): () => void;
  stop(): Promise<void>;
}

/** A real SMTP server on a free port of loopback. It requires `login` if one is given, and does not offer STARTTLS. */
export async function startMailServer(login?: { user: string; password: string }): Promise<MailServer> {
  const received: ReceivedMail[] = [];
  const refusals: number[] = [];
  let free = Promise.resolve();
  const server = new SMTPServer({
    authOptional: login === undefined,
    disabledCommands: ["STARTTLS", ...(login === undefined ? ["AUTH"] : [])],
    onAuth({ username, password }, _session, done) {
      if (username === login?.user && password === login?.password) done(null, { user: username });
      else done(Object.assign(new Error("no"), { responseCode: 535 }));
    },
    onData(stream, session, done) {
      Array.fromAsync(stream as AsyncIterable<Buffer>).then(async (chunks) => {
        await free;
        const code = refusals.shift();
        if (code !== undefined) return done(Object.assign(new Error("not now"), { responseCode: code }));
        const { mailFrom, rcptTo } = session.envelope;
        const text = plainText(Buffer.concat(chunks).toString());
        const link = /https?:\/\/\S+/.exec(text)?.[0] ?? "";
        received.push({ from: mailFrom ? mailFrom.address : "", to: rcptTo.map(({ address }) => address), text, link });
        done();
      });
    },
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `smtp://127.0.0.1:${(server.server.address() as AddressInfo).port}`,
    received,
    to: (address) => received.filter((mail) => mail.to.includes(address)),
    refuse: (...codes) => void refusals.push(...codes),
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>();
      free = promise;
      return resolve;
    },
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** Headers and body, with quoted-printable decoded. */
function plainText(source: string): string {
  return source
    .replaceAll("=\r\n", "")
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
