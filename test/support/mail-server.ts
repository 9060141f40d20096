import type { AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";

export interface ReceivedMail {
  from: string;
  to: string[];
  text: string;
  subject: string;
  /** Its parts by type, decoded, such as `text/html`. */
  parts: Record<string, string>;
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
        const source = Buffer.concat(chunks).toString();
        const text = plainText(source);
        const link = /https?:\/\/\S+/.exec(text)?.[0] ?? "";
        const from = mailFrom ? mailFrom.address : "";
        const to = rcptTo.map(({ address }) => address);
        received.push({ from, to, text, link, subject: subjectOf(source), parts: partsOf(source) });
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
  return quotedPrintable(source).toString();
}

function quotedPrintable(text: string): Buffer {
  const joined = text.replaceAll("=\r\n", "");
  const bytes = joined.replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(bytes, joined === bytes ? "utf8" : "latin1");
}

/** The subject, unfolded, with its encoded words decoded. */
function subjectOf(source: string): string {
  const folded = /^Subject: (.*(?:\r\n[ \t].*)*)/m.exec(source)?.[1] ?? "";
  return folded
    .replaceAll(/\?=\r\n[ \t]=\?/g, "?==?")
    .replaceAll(/\r\n/g, "")
    .replaceAll(/=\?utf-8\?([BQ])\?(.*?)\?=/gi, (_, kind: string, word: string) =>
      (kind === "B" ? Buffer.from(word, "base64") : quotedPrintable(word.replaceAll("_", " "))).toString(),
    );
}

function partsOf(source: string): Record<string, string> {
  const boundary = /boundary="([^"]+)"/.exec(source)?.[1];
  const parts = boundary === undefined ? [source] : source.split(`--${boundary}`).slice(1, -1);
  return Object.fromEntries(
    parts.map((part) => {
      const [head = "", ...body] = part.trimStart().split("\r\n\r\n");
      const type = /^Content-Type: ([^;\s]+)/im.exec(head)?.[1] ?? "text/plain";
      const encoding = /^Content-Transfer-Encoding: (\S+)/im.exec(head)?.[1] ?? "7bit";
      const text = body.join("\r\n\r\n");
      const decoded = encoding === "base64" ? Buffer.from(text, "base64") : quotedPrintable(text);
      return [type, (encoding === "7bit" ? text : decoded.toString()).replaceAll("\r\n", "\n")];
    }),
  );
}
