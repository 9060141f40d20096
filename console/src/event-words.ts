import type { Body } from "./api/client.ts";

/** The events of notices in a person's words. */

export type Event = Body<"POST /api/v1/webhook-endpoints">["events"][number];

export const EVENT_TEXTS: Record<Event, string> = {
  "balance.low": "The balance is low",
  "overage.cap_near": "Overage nears its cap",
  "key_budget.near": "A key nears its budget",
  "auto_topup.paused": "Automatic top-ups were paused",
  "run.failed": "A run failed",
  "run.has_errors": "A run succeeded with errors",
  "run.succeeded": "A run succeeded",
  "run.requires_action": "A run waits for your decision",
  "delivery.failed": "A result was not delivered",
  "schedule.paused": "A schedule was paused",
  "secret.reflected": "A site returned a secret",
  "secret.disconnected": "A server refuses a sign-in",
  "subscription.renewed": "The plan was renewed",
};
export const EVENT_NAMES = Object.keys(EVENT_TEXTS) as Event[];

export const isEvent = (name: string | undefined): name is Event =>
  name !== undefined && Object.hasOwn(EVENT_TEXTS, name);
/** A newer service can have events that this page does not know. */
export const eventText = (event: string): string => (isEvent(event) ? EVENT_TEXTS[event] : event);
