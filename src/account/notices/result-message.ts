import { NIL_ID } from "../../platform/lib/ids.ts";
import { stableDigest } from "../../platform/lib/json.ts";
import type { Mail } from "../../platform/net/mail.ts";
import { escapeHtml } from "./markdown.ts";
import type { LastOutput, RunResult } from "./notices.types.ts";

/** The result of a run as a webhook and as a mail. */

/** The rest of a longer output is in the console only. */
const MAIL_CHARS = 50_000;

/** The body of a `run.finished` webhook: the run's record with its output. */
export function resultBody({ run, agent_name, schedule_name }: RunResult): string {
  const data = { ...run, agent_name, schedule_name };
  return JSON.stringify({ type: "run.finished", timestamp: run.finished_at, data });
}

/** What a delivery of the result leaves behind, to compare the next one with; null: the run has failed. */
export function outputKept({ run }: RunResult): LastOutput | null {
  if (run.status !== "succeeded") return null;
  const output_hash = stableDigest(run.output_json ?? (run.output ?? "").replaceAll(/\s/g, ""));
  return { agent_id: run.agent_id, schedule_id: run.schedule_id ?? NIL_ID, output_hash };
}

/** The result as a mail in text and HTML. `url`: the console's origin. */
export async function resultMail(
  { run, agent_name, schedule_name }: RunResult,
  { id, to, url, toHtml }: { id: string; to: string; url: string; toHtml(markdown: string): Promise<string> },
): Promise<Mail> {
  const name = schedule_name === null || schedule_name === "default" ? agent_name : `${agent_name}: ${schedule_name}`;
  const has_failed = run.status === "failed";
  const link = `${url}/agents/${run.agent_id}/runs/${run.id}`;
  const has_json = run.output_json !== null;
  const output = has_json ? JSON.stringify(run.output_json, null, 2) : (run.output ?? "");
  const is_cut = output.length > MAIL_CHARS;
  const shown = output.slice(0, MAIL_CHARS).toWellFormed();
  const failure = has_failed ? `The run failed: ${run.error?.message ?? "unknown"}` : null;
  const ended = `${run.finished_at?.slice(0, 16).replace("T", " ")} UTC`;
  const foot = [
    ...(is_cut ? [`The output is longer: the first ${MAIL_CHARS.toLocaleString("en")} characters are above.`] : []),
    `Run of "${name}", ${ended}, ${run.usage.cost_tokens.toLocaleString("en")} tokens:`,
  ];
  const end = "You receive this because the agent's results are delivered to this address.";
  const text = [failure, shown, `-- \n${foot.join("\n")}\n${link}\n\n${end}`].filter(Boolean).join("\n\n");
  const html = [
    ...(failure === null ? [] : [`<p><strong>${escapeHtml(failure)}</strong></p>`]),
    has_json ? `<pre>${escapeHtml(shown)}</pre>` : await toHtml(shown),
    `<hr><p><small>${foot.map(escapeHtml).join("<br>")}<br><a href="${escapeHtml(link)}">${escapeHtml(link)}</a></small></p>`,
    `<p><small>${end}</small></p>`,
  ];
  return {
    id,
    to,
    subject: has_failed ? `${name} failed` : name,
    link,
    text: `${text}\n`,
    html: `<!doctype html><html><body style="font-family: sans-serif; line-height: 1.5">${html.join("\n")}</body></html>`,
  };
}
