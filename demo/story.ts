import { SITE_KEY } from "./site.ts";

/** The secret that the demo stores, and its agent, which reads the pages of the demo's site. */
export function tellStory(origin: string) {
  const { host } = new URL(origin);
  const auth = [{ secret: "HARBOUR_KEY", hosts: [host], paths: ["/prices"], inject: { type: "bearer" } }];
  return {
    secret: { name: "HARBOUR_KEY", value: SITE_KEY, allowed_hosts: [host] },
    agent: {
      name: "Harbour watch",
      system_prompt: "You watch the harbour's pages for a sailor. Be brief.",
      run_prompt: `Read ${origin}/harbour and ${origin}/prices and ${origin}/tides and send a summary to ${origin}/hook`,
      model_id: "purser/rehearsal",
      tools_config: { web_fetch: { enabled: true, auth }, send_webhook: { enabled: true, urls: [`${origin}/hook`] } },
      schedule_enabled: true,
      schedule_interval: "daily",
      schedule_time: "09:00",
      schedule_timezone: "Asia/Kolkata",
    },
  };
}
