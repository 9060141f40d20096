import type { AgentNamesOf } from "../../api/contract/agent-name.ts";
import { raceAbort } from "../../platform/lib/race-abort.ts";
import { isRefusedForGood, type Mail, type Mailer } from "../../platform/net/mail.ts";
import type { ClaimedDelivery, DeliveryStore } from "./delivery.store.ts";
import type { TryResult } from "./notices.types.ts";

const SCHEME = "mailto:";
/** Mails to one user within a day. An agent that fails every minute must not fill a mailbox. */
const MAILS_A_DAY = 20;
/** Below the time of a claim. A mail that is sent after it may come twice, with the same Message-ID. */
const TRY_TIMEOUT_MS = 30_000;
const TIMEOUT = "timeout";

export interface MailDeps {
  mailer: Mailer;
  /** The user's address, if they have proved that it is theirs. */
  addressOf(user_id: string): Promise<string | null>;
  agentNames: AgentNamesOf;
  /** The console's origin. */
  url(): string;
}

export const isMailUrl = (url: string): boolean => url.toLowerCase().startsWith(SCHEME);

/** Deliveries to the user's own e-mail address: those whose URL is `mailto:` and that address. */
export function createMailDelivery({ mailer, addressOf }: MailDeps, store: DeliveryStore) {
  const getUrl = async (user_id: string) => {
    const address = await addressOf(user_id);
    return address === null ? null : `${SCHEME}${address}`;
  };
  return {
    /** The reason why nothing can be delivered to this URL, in lower case, as a sentence for the user, or null. */
    async urlProblem(user_id: string, wanted: string): Promise<string | null> {
      if (mailer.delivery === "log") return "This service sends no e-mail: give an https URL.";
      const own = await getUrl(user_id);
      if (own === null) {
        return "Your e-mail address is not confirmed. Set a password through “Forgot the password?” on the sign-in page, and repeat this.";
      }
      return wanted === own ? null : `Mail is sent to your own address only: give ${own}`;
    },
    /** Sends a delivery once. An address that is no longer the user's counts as gone. Null: `signal` ended the wait. */
    async attempt(
      delivery: ClaimedDelivery,
      write: (to: string) => Promise<Mail>,
      signal: AbortSignal,
    ): Promise<TryResult | null> {
      const { user_id, id: delivery_id, destination_id } = delivery;
      const own = await getUrl(user_id);
      if (own !== delivery.url) return { status: 410, error: "address_changed" };
      if (!(await store.countMail(delivery, MAILS_A_DAY))) return { status: null, error: "mail_limit" };
      const mail = await write(own.slice(SCHEME.length));
      const about = { delivery_id, user_id, destination_id, try: delivery.attempts };
      const result = await send(mail, about, signal);
      // After a timeout or an abort the server may still send the mail, so it stays counted.
      if (result !== null && result.error !== null && result.error !== TIMEOUT) await store.uncountMail(delivery);
      return result;
    },
  };

  async function send(mail: Mail, about: { try: number }, signal: AbortSignal): Promise<TryResult | null> {
    const waiting = AbortSignal.any([signal, AbortSignal.timeout(TRY_TIMEOUT_MS)]);
    try {
      const result = await raceAbort(mailer.trySend(mail, about), waiting);
      return { ...result, is_final: isRefusedForGood(result), was_mailed: true };
    } catch (error) {
      if (signal.aborted) return null;
      if (waiting.aborted) return { status: null, error: TIMEOUT, was_mailed: true };
      throw error;
    }
  }
}
