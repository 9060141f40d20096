import { serveApi } from "../../src/app/routes.ts";
import { createServices } from "../../src/app/services.ts";
import { readConfig } from "../../src/config/config.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";

/**
 * Fills a database through the API: `users` users, each with a trial and an agent, a call for every fifth and a queued run
 * for every tenth. No worker runs, so the runs stay in the queue. The seed decides the distribution.
 *
 * As a command, for large databases: DATA_DIR=… npm run populate 5000 1
 */
async function populate(env: Record<string, string>, { users, seed = 1 }: { users: number; seed?: number }) {
  const admin_key = "operator-key-of-the-tests";
  const config = { ...readConfig({ LOG_LEVEL: "silent", ...env }), admin_key };
  const services = await createServices(config, createLog("silent"));
  const http = serveApi(services, { probes: [], sources: [], cut_off: new AbortController().signal });
  services.address.listeningAt("http://127.0.0.1");
  const ask = async (key: string, path: string, body: object) => {
    const text = JSON.stringify(body);
    const headers = {
      Authorization: `Bearer ${key}`,
      "Content-Type": "application/json",
      "Content-Length": `${Buffer.byteLength(text)}`,
    };
    const response = await http.inject({ method: "POST", url: `/api/v1/${path}`, headers, payload: text });
    if (response.statusCode >= 400) throw new Error(`${path}: ${response.statusCode} ${response.body}`);
    return response.json();
  };
  const random = generator(seed);
  const plan = Array.from({ length: users }, (_, n) => ({ n, calls: random() < 0.2, runs: random() < 0.1 }));
  const work = async () => {
    for (let next = plan.shift(); next !== undefined; next = plan.shift()) {
      const { n, calls, runs } = next;
      const { api_key } = await ask(admin_key, "admin/users", { email: `user-${seed}-${n}@example.com` });
      const agent = {
        name: `Agent "${n}" — äöü \u{1f600}`,
        model_id: "purser/rehearsal",
        run_prompt: "Say good\n\tmorning",
      };
      const { id } = await ask(api_key.key, "agents", agent);
      const messages = [{ role: "user", content: "Say hello" }];
      if (calls) await ask(api_key.key, "chat/completions", { model: "purser/rehearsal", messages, max_tokens: 50 });
      if (runs) await ask(api_key.key, `agents/${id}/runs`, {});
    }
  };
  await Promise.all(Array.from({ length: 8 }, work));
  await services.completions.idle();
  await services.db.close();
}

/** Mulberry32. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

if (import.meta.main) {
  const [users = 5_000, seed = 1] = process.argv.slice(2).map(Number);
  await populate(process.env as Record<string, string>, { users, seed });
  process.exit();
}
