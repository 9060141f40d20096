import type { Transporter } from "nodemailer";
import type { Log } from "./log.ts";

export interface Mail {
  to: string;
  subject: string;
  text: string;
  /** The link in it: all that matters where no mail can be sent. */
  link: string;
}

export interface Mailer {
  /** log: without a server, the link is written to the log. */
  readonly delivery: "mail" | "log";
  /** Sends in the background, so that the time an answer takes tells nothing; failures are logged. */
  send(mail: Mail): void;
  /** Waits for what is being sent; what would be tried again is given up. */
  close(): Promise<void>;
}

const TIMEOUT_MS = 10_000;
/** Pauses before each try: greylisting and short outages pass, a person still waits for the rest. */
const TRIES_MS = [0, 1_000, 10_000, 60_000];

/** Mail through SMTP_URL; null: to the log. STARTTLS is used where the server offers it. */
export function createMailer(settings: { smtp_url: string; from: string } | null, log: Log): Mailer {
  if (settings === null) {
    const send = ({ to, link }: Mail) =>
      log.warn({ to, link }, "SMTP_URL is not set: hand this link to who it is for, once you know them");
    return { delivery: "log", send, close: async () => {} };
  }
  let opening: Promise<Transporter> | undefined;
  const closing = new AbortController();
  const sending = new Set<Promise<void>>();

  const deliver = async ({ to, subject, text }: Mail) => {
    for (const [tries, pause_ms] of TRIES_MS.entries()) {
      await pause(pause_ms, closing.signal);
      if (tries > 0 && closing.signal.aborted) return;
      try {
        // As an object, the address is taken as one and never parsed into several.
        opening ??= openTransport(settings);
        await (await opening).sendMail({ to: { name: "", address: to }, subject, text });
        return;
      } catch (error) {
        const { code, responseCode } = error as { code?: string; responseCode?: number };
        log.error({ code, smtp_status: responseCode, try: tries + 1, of: TRIES_MS.length }, "a mail was not sent");
        if (responseCode !== undefined && responseCode >= 500) return;
      }
    }
  };
  return {
    delivery: "mail",
    send(mail) {
      const sent = deliver(mail).finally(() => sending.delete(sent));
      sending.add(sent);
    },
    async close() {
      closing.abort();
      await Promise.all(sending);
      (await opening)?.close();
    },
  };
}

/** The library is loaded for the first mail: most days no service sends any. */
async function openTransport({ smtp_url, from }: { smtp_url: string; from: string }): Promise<Transporter> {
  const { createTransport } = await import("nodemailer");
  const limits = { connectionTimeout: TIMEOUT_MS, greetingTimeout: TIMEOUT_MS, socketTimeout: TIMEOUT_MS };
  return createTransport({ url: smtp_url, ...limits, disableFileAccess: true, disableUrlAccess: true }, { from });
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms === 0 || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
