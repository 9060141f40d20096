import { randomBytes } from "node:crypto";
import { serveApi } from "../app/routes.ts";
import { createServices } from "../app/services.ts";
import { readConfig } from "../config/config.ts";
import { createLog } from "../platform/telemetry/log.ts";
import { type Call, MisuseError, say } from "./command.ts";
import { requireExisting } from "./existing.ts";

type Answer = Record<string, unknown>;
type Ask = (method: "GET" | "POST", path: string, body?: object) => Promise<Answer>;

/**
 * Runs `work` with the operator API of this process, without a port. So a command has the validation, the services and
 * the records of the API. `route`: what a person asks a running service for instead.
 */
async function asOperator(route: string, work: (ask: Ask) => Promise<void>): Promise<number> {
  const read = readConfig(process.env);
  await requireExisting(read).catch((error: Error) => {
    if (error.name !== "EmbeddedInUseError") throw error;
    throw new Error(
      `another process, probably the running service, has the embedded database in ${read.data_dir} open: ask it with ${route} and PURSER_ADMIN_KEY (docs/reference/api.md), or stop it first`,
    );
  });
  const config = { ...read, admin_key: read.admin_key ?? randomBytes(24).toString("hex") };
  const services = await createServices(config, createLog("warn"));
  const http = serveApi(services, { probes: [], sources: [], cut_off: new AbortController().signal });
  services.address.listeningAt("http://127.0.0.1");
  try {
    await work(async (method, path, body) => {
      const text = body === undefined ? null : JSON.stringify(body);
      const headers = {
        Authorization: `Bearer ${config.admin_key}`,
        ...(text !== null && { "Content-Type": "application/json", "Content-Length": `${Buffer.byteLength(text)}` }),
      };
      const response = await http.inject({ method, url: `/api/v1/admin/${path}`, headers, payload: text ?? "" });
      const answer = response.json<Answer & { error?: { message: string } }>();
      if (response.statusCode >= 400) {
        throw new Error(answer.error?.message ?? `the operator API answered ${response.statusCode}`);
      }
      return answer;
    });
    return 0;
  } finally {
    await services.db.close();
  }
}

/** `purser create-user EMAIL`: prints the id and the first key. */
export function createUser({ argument: email, options }: Call): Promise<number> {
  return asOperator("POST /api/v1/admin/users", async (ask) => {
    const made = await ask("POST", "users", { email, trial: options["no-trial"] === undefined });
    const { user, api_key } = made as { user: { id: string }; api_key: { key: string } };
    say(`created ${email}: ${user.id}`);
    say(`API key, shown this once: ${api_key.key}`);
  });
}

interface FoundUsers {
  users: { id: string; email: string }[];
  next_cursor: string | null;
}

/** The user with this address or id. The search also finds addresses that contain it, which may fill several pages. */
async function findUser(ask: Ask, named: string): Promise<FoundUsers["users"][number]> {
  const query = new URLSearchParams({ search: named, limit: "100" });
  for (;;) {
    const { users, next_cursor } = (await ask("GET", `users?${query}`)) as unknown as FoundUsers;
    const user = users.find(({ id, email }) => id === named || email.toLowerCase() === named.toLowerCase());
    if (user !== undefined) return user;
    if (next_cursor === null) throw new Error(`there is no user ${named}: give the whole e-mail address or the id`);
    query.set("cursor", next_cursor);
  }
}

/** `purser grant EMAIL_OR_ID --tokens N`. */
export function grant({ argument: named = "", options }: Call): Promise<number> {
  const amount_tokens = Number(options.tokens);
  if (!/^\d{1,16}$/.test(options.tokens ?? "") || amount_tokens < 1) {
    throw new MisuseError("--tokens needs a whole number above 0: purser grant ada@example.com --tokens 625000");
  }
  return asOperator("POST /api/v1/admin/users/{id}/grants", async (ask) => {
    const user = await findUser(ask, named);
    const { source = "bonus", note } = options;
    const expires_at = options["expires-at"];
    const body = { amount_tokens, source, ...(note && { note }), ...(expires_at && { expires_at }) };
    const bucket = await ask("POST", `users/${user.id}/grants`, body);
    say(`granted ${amount_tokens} tokens to ${user.email} (${user.id}); they expire at ${bucket.expires_at}`);
  });
}
