import type { Transporter } from "nodemailer";
import type { Clock } from "../lib/clock.ts";
import type { Instant } from "../lib/instant.ts";
import type { Log } from "../telemetry/log.ts";

export interface Mail {
  to: string;
  subject: string;
  text: string;
  /** The same as `text`, for programs that show it. */
  html?: string;
  /** The link in the text. Without a mail server, the log shows it. */
  link: string;
  /** The same for each try, so that a mail program shows a repeated mail once. */
  id?: string;
}

/**
 * `error`: why the mail was not sent, as a code; null: it was. `status` and `answer`: the mail server's own words about a
 * failure, if it gave any.
 */
export interface MailResult {
  status: number | null;
  error: string | null;
  answer?: string;
}

export interface Mailer {
  /** log: no mail server is set, so the link is written to the log. */
  readonly delivery: "mail" | "log";
  /** Writes the link of a mail to the log, where no mail server is set. */
  showLink(mail: Pick<Mail, "to" | "link">): void;
  /** Sends a mail once. A failure is one line of the log with `about`: the number of the try, and ids of the mail. */
  trySend(mail: Mail, about: { try: number }): Promise<MailResult>;
  /** The last mail of this node that was not sent. */
  lastFailure(): { at: Instant; code: string; smtp_status: number | null } | null;
  close(): Promise<void>;
}

const TIMEOUT_MS = 10_000;
const SENT_STATUS = 250;
const REFUSED_FROM = 400;
const MAX_ANSWER = 500;

/** Sends mail through SMTP_URL; with null, writes to the log. Uses STARTTLS if the server offers it. */
export function createMailer(
  settings: { smtp_url: string; from: string } | null,
  { log, clock }: { log: Log; clock: Clock },
): Mailer {
  const showLink: Mailer["showLink"] = ({ to, link }) =>
    log.warn(
      { to, link },
      "no mail is sent, because SMTP_URL is not set or this is a drill: hand this link to who it is for, once you know them",
    );
  if (settings === null) {
    const trySend = async () => ({ status: null, error: "no_mail_server" });
    return { delivery: "log", showLink, trySend, lastFailure: () => null, close: async () => {} };
  }
  let last_failure: ReturnType<Mailer["lastFailure"]> = null;
  let opening: Promise<Transporter> | undefined;
  return {
    delivery: "mail",
    showLink,
    async trySend({ to, subject, text, html, id }, about) {
      try {
        opening ??= openTransport(settings);
        // As an object, the address is a single recipient and is never parsed into several.
        const mail = {
          to: { name: "", address: to },
          subject,
          text,
          ...(html !== undefined && { html }),
          ...(id !== undefined && { messageId: `<${id}@purser>` }),
        };
        await (await opening).sendMail(mail);
        return { status: SENT_STATUS, error: null };
      } catch (error) {
        const { code, responseCode, response } = error as { code?: string; responseCode?: number; response?: string };
        // A reply that says yes at the wrong moment is no acceptance of the mail.
        const status = responseCode !== undefined && responseCode >= REFUSED_FROM ? responseCode : null;
        log.error({ ...about, code, smtp_status: status }, "a mail was not sent");
        last_failure = { at: clock.now(), code: code ?? "mail_failed", smtp_status: status };
        const answer = response?.slice(0, MAX_ANSWER);
        return { status, error: last_failure.code, ...(answer !== undefined && { answer }) };
      }
    },
    lastFailure: () => last_failure,
    async close() {
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
