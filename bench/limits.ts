import { startPostgres } from "../test/support/postgres-server.ts";
import { startInstantModel } from "./support/instant-model.ts";
import type { Target } from "./support/load.ts";
import type { Effort, Outcome } from "./support/outcome.ts";
import { onLoadCore } from "./support/processes.ts";
import { completionTarget, type ProcessorMeasure, processorLoad, processorTable } from "./support/processor-load.ts";
import { type BenchService, configure, createPlace, startService } from "./support/service.ts";
import { inTurn, pairedRatio } from "./support/statistics.ts";

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
    const contenders = new Map<string, () => Promise<ProcessorMeasure>>();
    for (const [name, kind] of Object.entries(KINDS)) {
      const target = await targetOf(service, kind);
      contenders.set(name, () => processorLoad(name, service, { target, seconds: LOAD_SECONDS * scale }));
    }
    const found = await onLoadCore(async () => {
      await inTurn(contenders, 2);
      return inTurn(contenders, rounds * ROUNDS);
    });
    const [base = "", ...others] = Object.keys(KINDS);
    return {
      name: "limits",
      title: "Limits",
      tables: [processorTable(found)],
      ratios: others.map((name) => ({
        of: `${name}, processor time`,
        to: base,
        value: pairedRatio(found.get(name), found.get(base), (each) => each.processor_ms),
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
  return completionTarget(service, key);
}
