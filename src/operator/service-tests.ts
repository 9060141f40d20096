import type { PaymentProvider } from "../account/billing/payments.types.ts";
import type { MailTest, PaymentsTest, ProviderTest } from "../api/contract/admin-service.ts";
import type { KnownProvider } from "../gateway/models/models.service.ts";
import { monotonicMs } from "../platform/lib/clock.ts";
import { newId } from "../platform/lib/ids.ts";
import type { Mailer } from "../platform/net/mail.ts";

/** Tests of the services that Purser needs, with the settings that are in force. */

/** Sends a test mail. */
export async function testMail(mailer: Mailer, to: string): Promise<MailTest> {
  if (mailer.delivery === "log") {
    const problem = "No mail was sent: SMTP_URL is not set. Set it and MAIL_FROM, and start the service again.";
    return { ok: false, latency_ms: 0, problem, smtp_status: null, answer: null };
  }
  const began_ms = monotonicMs();
  const subject = "Test mail from Purser";
  const text = "This mail was sent to test the mail server of this service. Mails reach this address.\n";
  const result = await mailer.trySend({ to, subject, text, link: "", id: newId() }, { try: 1 });
  const { status, error, answer = null } = result;
  return {
    ok: error === null,
    latency_ms: Math.round(monotonicMs() - began_ms),
    problem: error === null ? null : explainMailError(error),
    smtp_status: error === null ? null : status,
    answer,
  };
}

function explainMailError(code: string): string {
  if (code === "EAUTH") return "The mail server rejects the user name or the password. Check SMTP_URL.";
  if (code === "EENVELOPE" || code === "EMESSAGE")
    return "The mail server rejects the mail. Check MAIL_FROM and the address.";
  return `The mail server could not be reached (${code}). Check the host and the port in SMTP_URL.`;
}

/** Asks the payment provider for something that changes nothing. */
export async function testPayments(payments: PaymentProvider): Promise<Omit<PaymentsTest, "provider">> {
  if (payments.check === undefined) {
    return { ok: true, latency_ms: 0, problem: null };
  }
  const began_ms = monotonicMs();
  const problem = await payments.check();
  return { ok: problem === null, latency_ms: Math.round(monotonicMs() - began_ms), problem };
}

/** Why a provider could not be called. */
export function explainUntested({ name, key, key_variable }: KnownProvider): ProviderTest {
  const problem =
    key === "not_set"
      ? `No call was made: ${key_variable} is not set. Set it to the provider's key, and start the service again.`
      : `No call was made: no model of ${name} is on offer. Add one to PURSER_CONFIG, and reload it.`;
  return { ok: false, latency_ms: 0, problem, model_id: null, provider: null, cost_micro_usd: null };
}
