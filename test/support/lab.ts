import { afterAll, beforeAll, expect } from "vitest";
import { type Client, type Service, type ServiceOptions, startService } from "./service.ts";
import { startUpstream, type Upstream } from "./upstream.ts";

/** The operator's key for the upstream. No answer may contain it. */
export const LAB_KEY = "sk-lab-0123456789-never-shown";

/** A model of the lab, as the operator's file names it. `provider_model` is the id's last part. */
export interface LabModel {
  id: string;
  input_rate: number;
  output_rate: number;
  [setting: string]: unknown;
}

/** Integer rates whose sums a reader can check, fractional rates for rounding, and a model that no trial may use. */
export const LAB_MODELS: LabModel[] = [
  { id: "lab/plain", input_rate: 1, output_rate: 2 },
  { id: "lab/odd", input_rate: 0.333333, output_rate: 1.000001 },
  { id: "lab/vendor/deep:v1", input_rate: 1, output_rate: 4, trial_eligible: false },
];

/** The same models for tests whose upstream reports millions of tokens, which no smaller window can have used. */
export const WIDE_MODELS: LabModel[] = LAB_MODELS.map((model) => ({ ...model, context_window: 100_000_000 }));

export interface Lab {
  service: Service;
  upstream: Upstream;
  stop(): Promise<void>;
}

/** The PURSER_CONFIG of these models. `upstream` answers their calls. */
export function labConfig(upstream: Upstream, models = LAB_MODELS, limits: object = {}, settings: object = {}) {
  return {
    ...settings,
    providers: [{ name: "lab", kind: "openai-compatible", base_url: upstream.url, api_key_env: "LAB_KEY" }],
    models: models.map((model) => ({
      provider: "lab",
      provider_model: model.id.split("/").at(-1),
      trial_eligible: true,
      context_window: 128_000,
      max_output_tokens: 4096,
      supports: { tools: true, json_schema: true },
      ...model,
    })),
    limits: { requests_per_minute: 1_000_000, ...limits },
  };
}

/** A service whose models are answered by a scripted upstream. */
export async function startLab(
  models = LAB_MODELS,
  options: ServiceOptions & { limits?: object; settings?: object } = {},
): Promise<Lab> {
  const upstream = await startUpstream();
  const config = labConfig(upstream, models, options.limits, options.settings);
  const service = await startService({ env: { LAB_KEY, ...options.env }, config });
  const stop = async () => {
    await service.stop();
    await upstream.close();
  };
  return { service, upstream, stop };
}

/** A lab for the tests of a file or of one `describe`. After them, its audit must find no violation. */
export function useLab(...given: Parameters<typeof startLab>): Lab {
  const lab = {} as Lab;
  beforeAll(async () => {
    Object.assign(lab, await startLab(...given));
  });
  afterAll(async () => {
    await expectCleanAudit(lab.service);
    await lab.stop();
  });
  return lab;
}

/** A request with one user message, and with `fields`. */
export function ask(model: string, fields: Record<string, unknown> = {}) {
  return { model, messages: [{ role: "user", content: "hello" }], ...fields };
}

/** The ledger's usage entries of a user, newest first. */
export async function charges(user: Client): Promise<{ amount: number; model: string; request_id: string }[]> {
  return (await user.get("/api/v1/users/me/transactions?type=usage&limit=100")).body.transactions;
}

/** Waits until the user has no call in flight, and returns the balance. */
export async function settledBalance(user: Client): Promise<number> {
  const balance = async () => (await user.get("/api/v1/users/me")).body.balance;
  await expect.poll(async () => (await balance()).held, { interval: 20 }).toBe(0);
  return (await balance()).available;
}

/** Recomputes every balance from the ledger, by the operator's audit. */
export async function expectCleanAudit(service: Service): Promise<void> {
  expect((await service.admin.get("/api/v1/admin/audit")).body).toMatchObject({ ok: true, violations: [] });
}
