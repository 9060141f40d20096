import Stripe from "stripe";
import { type Form, invalid, STRIPE_KEY } from "./stripe-server.ts";

/** The events of the fake of Stripe: its list, and their deliveries by the webhook, which the test makes. */

export const WEBHOOK_SECRET = "whsec_local";

export interface StripeEvent {
  id: string;
  type: string;
  data: { object: unknown };
  /** Unix seconds of real time; absent: now. */
  created?: number;
}

export function createEventLog() {
  const undelivered: StripeEvent[] = [];
  /** What Stripe keeps for its list of events, oldest first. */
  const kept: (StripeEvent & { created: number })[] = [];
  return {
    /** Stripe has one more event, such as of another program. */
    keepEvent(event: StripeEvent): void {
      undelivered.push(event);
      kept.push({ created: Math.floor(Date.now() / 1000), ...event });
    },
    /** Makes the events of the list older. */
    ageEvents(seconds: number): void {
      for (const event of kept) event.created -= seconds;
    },
    /** The answer to `GET /v1/events`, newest first. */
    listEvents({ types, created, limit, starting_after }: Form): object {
      const wanted = Object.values(types as Form);
      const { gte = 0, lte = Infinity } = (created ?? {}) as Record<string, string>;
      const all = kept.filter((each) => each.created >= Number(gte) && each.created <= Number(lte)).reverse();
      const mine = all.filter(({ type }) => wanted.includes(type)).map((each) => ({ object: "event", ...each }));
      const from = mine.findIndex(({ id }) => id === starting_after) + 1;
      if (starting_after !== undefined && from === 0) throw invalid("No such event");
      const data = mine.slice(from, from + Number(limit));
      return { object: "list", data, has_more: from + data.length < mine.length };
    },
    /** Stripe's new events since the last call, oldest first. */
    takeEvents: (): StripeEvent[] => undelivered.splice(0),
    signed,
    /** Sends an event to the service like Stripe. A wrong `secret` makes a forgery. */
    deliver(service_url: string, event: StripeEvent, secret = WEBHOOK_SECRET): Promise<Response> {
      const { payload, signature } = signed(event, secret);
      return fetch(`${service_url}/api/v1/billing/stripe/webhook`, {
        method: "POST",
        headers: { "Content-Type": "application/json", "Stripe-Signature": signature },
        body: payload,
      });
    },
  };
}

/** An event in the form that Stripe sends. */
function signed(event: StripeEvent, secret = WEBHOOK_SECRET): { payload: string; signature: string } {
  const payload = JSON.stringify({
    object: "event",
    api_version: "2026-10-28.endive",
    created: Math.floor(Date.now() / 1000),
    ...event,
  });
  return { payload, signature: new Stripe(STRIPE_KEY).webhooks.generateTestHeaderString({ payload, secret }) };
}
