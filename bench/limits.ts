import { startPostgres } from "../test/support/postgres-server.ts";
import { startInstantModel } from "./support/instant-model.ts";
import { closedLoop, type Target } from "./support/load.ts";
import type { Effort, Outcome } from "./support/outcome.ts";
import { onLoadCore, processorMs } from "./support/processes.ts";
import { type BenchService, configure, createPlace, startService } from "./support/service.ts";
import { inTurn, median, medianOf } from "./support/statistics.ts";

const CALLERS = 8;
const LOAD_SECONDS = 2;
const ROUNDS = 7;
/** Limits that no call reaches, so that each call is counted and served. */
const HIGH = 1_000_000_000;
const PER_MINUTE = { requests_per_minute: HIGH, tokens_per_minute: HIGH };

/** The settings of the keys, and the limits of their users. The first is the base of the ratios. */
const KINDS: Record<string, { key: object; user: object | null }> = {
  "no limits": { key: {}, user: null },
  "requests and tokens per minute of the key": { key: { limits: PER_MINUTE }, user: null },
  "and of the user, a monthly budget, allowed models": {
    key: {
      limits: PER_MINUTE,
      budget_tokens: HIGH * 1_000,
      budget_interval: "month",
      allowed_models: ["bench/instant"],
    },
    user: PER_MINUTE,
  },
};

/** Processor time of a completion on PostgreSQL with and without limits: several keys of one process, paired in each round. */
export async function limits({ rounds, scale }: Effort): Promise<Outcome> {
  const [postgres, model] = [await startPostgres(), await startInstantModel()];
  const place = await createPlace(postgres);
  configure(place, model.url);
  const service = await startService(place, { core: "service" });
  try {
    const contenders = new Map<string, () => Promise<{ processor_ms: number; per_second: number }>>();
    for (const [name, kind] of Object.entries(KINDS)) {
      const target = await targetOf(service, kind);
      contenders.set(name, () => loaded(service, target, LOAD_SECONDS * scale));
    }
    const found = await onLoadCore(async () => {
      await inTurn(contenders, 2);
      return inTurn(contenders, rounds * ROUNDS);
    });
    const names = Object.keys(KINDS);
    const [base = [], ...others] = names.map((name) => found.get(name) ?? []);
    return {
      name: "limits",
      title: "Limits",
      tables: [
        {
          caption: `Completions by ${CALLERS} callers on PostgreSQL`,
          columns: ["processor, ms", "requests/s"],
          rows: names.map((name) => ({
            name,
            values: [
              medianOf(found.get(name), (each) => each.processor_ms),
              medianOf(found.get(name), (each) => each.per_second),
            ],
          })),
        },
      ],
      ratios: others.map((measures, nth) => ({
        of: `${names[nth + 1]}, processor time`,
        to: names[0] as string,
        value: median(
          measures.map(({ processor_ms }, round) => processor_ms / (base[round]?.processor_ms ?? Number.NaN)),
        ),
        goal: "≤ 1.05",
      })),
    };
  } finally {
    await service.stop();
    model.close();
    await postgres.stop();
  }
}

async function targetOf(service: BenchService, kind: { key: object; user: object | null }): Promise<Target> {
  const user = await service.newUser();
  if (kind.user !== null)
    await service.call("PATCH", `/api/v1/admin/users/${user.id}`, { body: { limits: kind.user } });
  const body = { name: "limited", ...kind.key };
  const { key } = await service.call<{ key: string }>("POST", "/api/v1/api-keys", { key: user.key, body });
  const ask = { model: "bench/instant", messages: [{ role: "user", content: "What does a purser do on a ship?" }] };
  const headers = { authorization: `Bearer ${key}` };
  return { port: service.port, path: "/api/v1/chat/completions", headers, body: ask };
}

async function loaded(service: BenchService, target: Target, seconds: number) {
  const before_ms = processorMs(service.pid);
  const measure = await closedLoop(target, { callers: CALLERS, seconds });
  if (measure.failures > 0) throw new Error(`${measure.failures} failures, the first: ${measure.failure}`);
  return { per_second: measure.per_second, processor_ms: (processorMs(service.pid) - before_ms) / measure.answers };
}
