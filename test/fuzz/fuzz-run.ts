import { seededRandom } from "../../bench/support/statistics.ts";
import { createDeclared, readDocument } from "../support/declared.ts";
import { startLab } from "../support/lab.ts";
import { ADMIN_KEY, type Client, type Service } from "../support/service.ts";
import { calling, completion, type Reply } from "../support/upstream.ts";
import { createRequests, type FuzzRequest, sectionOf, type World } from "./requests.ts";
import { createDice } from "./values.ts";

/** A request without an answer after this time counts as hanging. A chat waits up to 30 s for its place. */
const HANG_MS = 60_000;
const AT_ONCE = 6;
/** Requests after which the users are replaced, because requests delete, suspend and revoke. */
const USERS_FOR = 400;
/** Ids that are remembered of each collection. */
const MAX_IDS = 30;

export interface Fault {
  request: string;
  fault: string;
}
export interface FuzzOutcome {
  /** Answers by operation and status. */
  statuses: Map<string, Map<number, number>>;
  faults: Fault[];
  /** 503 with Retry-After: a limit of the service. */
  limited: number;
}

interface Plan {
  count: number;
  seed: number;
  onProgress?: (sent: number, outcome: FuzzOutcome) => void;
}

/** Sends `count` requests to a new service and compares every answer with openapi.json. */
export async function fuzz({ count, seed, onProgress = () => {} }: Plan): Promise<FuzzOutcome> {
  const env = { PURSER_TRUSTED_PROXIES: "127.0.0.0/8", PURSER_PAYMENTS: "sandbox" };
  const lab = await startLab(undefined, { env });
  const reply: Reply = (response, request) =>
    request.body?.tools?.length > 0 && JSON.stringify(request.body.messages ?? "").length % 3 === 0
      ? calling("weather", { city: "Oslo" })(response, request)
      : completion()(response, request);
  lab.upstream.answer(reply);
  const outcome: FuzzOutcome = { statuses: new Map(), faults: [], limited: 0 };
  try {
    const { service } = lab;
    const document = await readDocument(service.url);
    const dice = createDice(seededRandom(seed));
    const world: World = { ids: new Map(), keys: await newKeys(service) };
    await addAgents(service, world);
    const requests = createRequests(document, dice, world);
    const { faultOf } = createDeclared(document);
    for (let sent = 0; sent < count; sent += AT_ONCE) {
      if (Math.floor(sent / USERS_FOR) > Math.floor((sent - AT_ONCE) / USERS_FOR)) {
        onProgress(sent, outcome);
        world.keys = await newKeys(service);
        world.ids.clear();
        await addAgents(service, world);
      }
      // All requests are made before the first is sent, so that a seed makes the same requests from the same answers.
      const batch = Array.from({ length: Math.min(AT_ONCE, count - sent) }, () => requests.next());
      await Promise.all(batch.map((request) => check(service.url, request, { outcome, world, faultOf })));
    }
  } finally {
    await lab.stop();
  }
  return outcome;
}

interface Judge {
  outcome: FuzzOutcome;
  world: World;
  faultOf: ReturnType<typeof createDeclared>["faultOf"];
}

async function check(url: string, request: FuzzRequest, { outcome, world, faultOf }: Judge): Promise<void> {
  const { operation, method, template, path, headers, body } = request;
  const addFault = (fault: string) => {
    const shown = `${method.toUpperCase()} ${path} ${JSON.stringify(headers)} ${body ?? ""}`;
    outcome.faults.push({ request: shown.slice(0, 3000), fault: `${operation.operationId}: ${fault}` });
  };
  const init = {
    method: method.toUpperCase(),
    headers,
    redirect: "manual",
    signal: AbortSignal.timeout(HANG_MS),
  } as const;
  try {
    const response = await fetch(url + path, body === undefined ? init : { ...init, body });
    const text = await response.text();
    const { status } = response;
    const row = outcome.statuses.get(operation.operationId) ?? new Map<number, number>();
    outcome.statuses.set(operation.operationId, row.set(status, (row.get(status) ?? 0) + 1));
    const is_limit = status === 503 && response.headers.has("Retry-After");
    if (is_limit) outcome.limited += 1;
    else if (status >= 500) addFault(`${status} ${text.slice(0, 500)}`);
    const fault = faultOf({ method, path: template, status }, response.headers.get("Content-Type") ?? "", text);
    if (fault !== null) addFault(`${status}: ${fault}`);
    if (response.ok) remember(world, request, response, text);
  } catch (error) {
    const is_late = error instanceof DOMException && error.name === "TimeoutError";
    addFault(is_late ? `no answer within ${HANG_MS} ms` : `no answer: ${String((error as Error).cause ?? error)}`);
  }
}

/** Keeps the ids that later requests use. */
function remember({ ids }: World, { template, path }: FuzzRequest, response: Response, text: string): void {
  const parts = template.split("/");
  const keep = (section: string, id: unknown, parent: string | null) => {
    if (typeof id !== "string") return;
    const known = ids.get(section) ?? [];
    ids.set(section, [...known, { id, parent }].slice(-MAX_IDS));
  };
  if (/chat\/completions|responses|messages$/.test(template))
    keep("requests", response.headers.get("X-Request-Id"), null);
  if (!(response.headers.get("Content-Type") ?? "").startsWith("application/json")) return;
  const record = JSON.parse(text) as { id?: unknown; user?: { id?: unknown }; thread_id?: unknown; run_id?: unknown };
  const at = parts.findLastIndex((part) => part.startsWith("{"));
  const parent = at < 0 ? null : decodeURIComponent(path.split("?")[0]?.split("/")[at] ?? "");
  if (template.endsWith("/users")) keep("admin/users", record.user?.id, null);
  else if (template.endsWith("/purchase")) keep("purchases", record.id, null);
  else keep(sectionOf([...parts, "{id}"], parts.length), record.id, parent);
  if (template.endsWith("/chat")) {
    keep("threads", record.thread_id, parent);
    keep("runs", record.run_id, parent);
  }
}

async function newKeys(service: Service): Promise<World["keys"]> {
  const user: Client = await service.newUser({ trial: false, tokens: 1_000_000_000 });
  const poor = await service.newUser({ trial: false });
  const narrow = await user.post("/api/v1/api-keys", { name: "narrow", scopes: ["chat:read", "billing:read"] });
  return { user: user.key, poor: poor.key, narrow: narrow.body.key, operator: ADMIN_KEY };
}

/** Random agents seldom pass every rule about two fields. */
async function addAgents(service: Service, { ids, keys }: World): Promise<void> {
  const user = service.as(keys.user);
  for (const model_id of ["lab/plain", "lab/plain", "purser/rehearsal"]) {
    const { id } = (await user.post("/api/v1/agents", { name: "Scout", model_id, run_prompt: "Say: hello" })).body;
    const run = await user.post(`/api/v1/agents/${id}/runs`);
    ids.set("agents", [...(ids.get("agents") ?? []), { id, parent: null }]);
    ids.set("runs", [...(ids.get("runs") ?? []), { id: run.body.id, parent: id }]);
  }
}

/** The answers by operation and status, as a table. */
export function statusTable({ statuses }: FuzzOutcome): string {
  const columns = [...new Set([...statuses.values()].flatMap((row) => [...row.keys()]))].sort((a, b) => a - b);
  const line = (cells: (string | number)[]) => `| ${cells.join(" | ")} |`;
  const rows = [...statuses]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, row]) => line([name, ...columns.map((status) => row.get(status) ?? "")]));
  return [line(["operation", ...columns]), `|${"---|".repeat(columns.length + 1)}`, ...rows].join("\n");
}
