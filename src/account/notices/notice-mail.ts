import type { NoticeEvent } from "../../api/contract/notices.ts";
import type { PauseReason } from "../../api/contract/payments.ts";
import type { NoticeAction, NoticeData } from "../../api/contract/webhooks.ts";
import type { Mail } from "../../platform/net/mail.ts";
import { NOTICE_ARGUMENTS_CHARS } from "./notices.types.ts";

/**
 * Notices as e-mails. They contain no text of pages or providers, because an address in it would look like Purser's
 * own. The page that the link opens has the details. A call that waits for approval is the exception: its mail shows the
 * call, marked as the agent's text, and no address in it can be opened.
 */

interface Words {
  subject: string;
  text: string;
  /** Of the console's page where the person can act. */
  path: string;
  /** Follows the link. */
  more?: string;
}

const CHARS = NOTICE_ARGUMENTS_CHARS.toLocaleString("en");
const minute = (at: string) => `${at.slice(0, 16).replace("T", " ")} UTC`;
const earliest = (actions: readonly NoticeAction[]) => actions.map(({ expires_at }) => expires_at).sort()[0] ?? "";

const tokens = (count: number) => `${count.toLocaleString("en")} tokens`;

/** What happened to the payment. */
const PAUSED_BY: { [Reason in PauseReason]: string } = {
  payment_declined: "was declined, or no card is saved",
  payment_mismatch: "had another amount than ordered",
  payment_returned: "was refunded or disputed",
};

/** Text of an agent or a page, in which no mail program finds an address to open, and which has no hidden characters. */
const inert = (text: string): string =>
  text
    .replaceAll(/[^\P{C}\n]/gu, "\ufffd")
    .replaceAll("://", ": //")
    .replaceAll(/(?<=[\p{L}\p{N}-])\.(?=\p{L}{2})/gu, "[.]");

/** What one action asks: a call, or tokens. Each line that the agent wrote has a mark. */
function actionText({ tool, destination, arguments: given, reason }: NoticeAction): string {
  const about = inert(reason).replaceAll("\n", " ");
  if (tool === null) return about;
  const call = destination === null ? tool : `${tool}, to ${destination}`;
  const lines =
    given === null
      ? []
      : [
          "",
          ...inert(given)
            .split("\n")
            .map((line) => `   | ${line}`),
        ];
  return [inert(call).replaceAll("\n", " "), `   ${about}`, ...lines].join("\n");
}

function actionTexts({ actions, actions_count }: NoticeData["run.requires_action"]): string {
  const shown = actions.map((action, place) => `${place + 1}. ${actionText(action)}`);
  const others = actions_count - shown.length;
  return [...shown, ...(others === 0 ? [] : [`And ${others} more.`])].join("\n\n");
}

const WORDS: { [Event in NoticeEvent]: (data: NoticeData[Event], agent: string) => Words } = {
  "balance.low": ({ percent, granted_tokens, remaining_tokens }) => ({
    subject: `${percent}% of your tokens are used`,
    text: `Of ${tokens(granted_tokens)}, ${tokens(remaining_tokens)} are left.`,
    path: "/billing",
  }),
  "overage.cap_near": ({ percent, cap_tokens, used_tokens }) => ({
    subject: `${percent}% of your overage cap is used`,
    text: `${tokens(used_tokens)} of ${tokens(cap_tokens)} are used in this period.`,
    path: "/billing?tab=overage",
  }),
  "key_budget.near": ({ percent, budget_tokens, spent_tokens }) => ({
    subject: `An API key has used ${percent}% of its budget`,
    text: `${tokens(spent_tokens)} of ${tokens(budget_tokens)} are used.`,
    path: "/keys",
  }),
  "auto_topup.paused": ({ reason, amount_cents }) => ({
    subject: "Your automatic top-ups are paused",
    text: `The payment of $${(amount_cents / 100).toFixed(2)} ${PAUSED_BY[reason]}. No further one is ordered until you resume them.`,
    path: "/billing",
  }),
  "run.failed": ({ agent_id, run_id }, agent) => ({
    subject: `A run of ${agent} failed`,
    text: "Its steps show what happened.",
    path: `/agents/${agent_id}/runs/${run_id}`,
  }),
  "run.has_errors": ({ agent_id, run_id, failed_steps }, agent) => ({
    subject: `A run of ${agent} succeeded with errors`,
    text: failed_steps === 1 ? "One of its steps failed." : `${failed_steps} of its steps failed.`,
    path: `/agents/${agent_id}/runs/${run_id}`,
  }),
  "run.succeeded": ({ agent_id, run_id }, agent) => ({
    subject: `A run of ${agent} succeeded`,
    text: "Its page has the output.",
    path: `/agents/${agent_id}/runs/${run_id}`,
  }),
  "run.requires_action": (data, agent) => ({
    subject: `${agent} asks for your decision`,
    text: `It waits, at no cost, until ${minute(earliest(data.actions))}. This page shows the whole question, and opening it decides nothing:`,
    path: `/agents/${data.agent_id}/runs/${data.run_id}/decide`,
    more: `What it asks, with at most ${CHARS} characters of each call's arguments. The agent wrote the lines with |. Addresses below are changed so that none can be opened.\n\n${actionTexts(data)}`,
  }),
  "delivery.failed": ({ agent_id, run_id }, agent) => ({
    subject: `A result of ${agent} could not be delivered`,
    text: "Its page has the output, and shows why the delivery failed.",
    path: `/agents/${agent_id}/runs/${run_id}`,
  }),
  "schedule.paused": ({ agent_id, schedule_name }, agent) => ({
    subject: `The schedule ${schedule_name === "default" ? "" : `${schedule_name} `}of ${agent} is paused`,
    text: "Its page says why, and what resumes it.",
    path: `/agents/${agent_id}?tab=schedule`,
  }),
  "secret.reflected": ({ secret_name }) => ({
    subject: `A site returned your secret ${secret_name}`,
    text: "The secret is not used again until you change its value.",
    path: "/secrets",
  }),
  "secret.disconnected": ({ secret_name }) => ({
    subject: `Your secret ${secret_name} must be connected again`,
    text: "Its authorization server refuses it.",
    path: "/secrets",
  }),
  "subscription.renewed": ({ period_end }) => ({
    subject: "Your plan was renewed",
    text: `The new period ends on ${period_end.slice(0, 10)}.`,
    path: "/billing",
  }),
};

/** The mail of a notice. `url`: the origin of the console. `agent`: the name of the agent in `data`, if there is one. */
export function noticeMail(
  { id, event, data }: { id: string; event: NoticeEvent; data: unknown },
  { to, url, agent }: { to: string; url: string; agent: string | null },
): Mail {
  // The event's own data, as `notify` stored it.
  const wordsFor = WORDS[event] as (data: unknown, agent: string) => Words;
  const { subject, text, path, more } = wordsFor(data, agent === null ? "an agent" : `"${agent}"`);
  const link = `${url}${path}`;
  const end = `You receive this because your notices are sent to this address. To change that, open ${url}/notices`;
  const parts = [`${subject}. ${text}`, link, ...(more === undefined ? [] : [more]), end];
  return { id, to, subject, link, text: `${parts.join("\n\n")}\n` };
}
