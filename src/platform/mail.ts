import type { Transporter } from "nodemailer";
import type { Log } from "./log.ts";
import { backoff } from "./retry.ts";

export interface Mail {
  to: string;
  subject: string;
  text: string;
  /** The link in the text. Without a mail server, the log shows it. */
  link: string;
  /** The same for each try, so that a mail program shows a repeated mail once. */
  id?: string;
}

/** `error`: why the mail was not sent, as a code; null: it was. `status`: the mail server's answer, if it gave one. */
export interface MailResult {
  status: number | null;
  error: string | null;
}

export interface Mailer {
  /** log: no mail server is set, so the link is written to the log. */
  readonly delivery: "mail" | "log";
  /** Sends in the background and logs failures. So the response time does not reveal whether a mail is sent. */
  send(mail: Mail): void;
  /** Sends a mail once, and logs a failure. `nth`: the number of this try. */
  trySend(mail: Mail, nth: number): Promise<MailResult>;
  /** Waits for mails in progress. Gives up on mails that wait for a retry. */
  close(): Promise<void>;
}

const TIMEOUT_MS = 10_000;
const SENT_STATUS = 250;
const REFUSED_FROM = 400;
/** Pause before each try. They outlast greylisting and short outages, while the person still waits for the mail. */
const TRIES_MS = [0, ...backoff({ first: 1_000, max: 60_000, retries: 4 })];

/** Sends mail through SMTP_URL; with null, writes to the log. Uses STARTTLS if the server offers it. */
export function createMailer(settings: { smtp_url: string; from: string } | null, log: Log): Mailer {
  if (settings === null) {
    const send = ({ to, link }: Mail) =>
      log.warn({ to, link }, "SMTP_URL is not set: hand this link to who it is for, once you know them");
    const trySend = async () => ({ status: null, error: "no_mail_server" });
    return { delivery: "log", send, trySend, close: async () => {} };
  }
  let opening: Promise<Transporter> | undefined;
  const closing = new AbortController();
  const sending = new Set<Promise<void>>();

  const trySend = async ({ to, subject, text, id }: Mail, nth: number): Promise<MailResult> => {
    try {
      opening ??= openTransport(settings);
      // As an object, the address is a single recipient and is never parsed into several.
      const mail = {
        to: { name: "", address: to },
        subject,
        text,
        ...(id !== undefined && { messageId: `<${id}@purser>` }),
      };
      await (await opening).sendMail(mail);
      return { status: SENT_STATUS, error: null };
    } catch (error) {
      const { code, responseCode } = error as { code?: string; responseCode?: number };
      // A reply that says yes at the wrong moment is no acceptance of the mail.
      const status = responseCode !== undefined && responseCode >= REFUSED_FROM ? responseCode : null;
      log.error({ code, smtp_status: status, try: nth }, "a mail was not sent");
      return { status, error: code ?? "mail_failed" };
    }
  };
  const deliver = async (mail: Mail) => {
    for (const [tries, pause_ms] of TRIES_MS.entries()) {
      await pause(pause_ms, closing.signal);
      if (tries > 0 && closing.signal.aborted) return;
      const result = await trySend(mail, tries + 1);
      if (result.error === null || isRefusedForGood(result)) return;
    }
  };
  return {
    delivery: "mail",
    trySend,
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

/** Whether the server will never take this mail. A rejected password is the operator's mistake, which they can mend. */
export function isRefusedForGood({ status, error }: MailResult): boolean {
  return status !== null && status >= 500 && error !== "EAUTH";
}

/** Loads the library at the first mail, because most services send no mail on most days. */
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
