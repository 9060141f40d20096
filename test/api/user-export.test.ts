import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createSystemClock } from "../../src/platform/clock.ts";
import { createUserExport } from "../../src/user-export/user-export.service.ts";
import { createLedgerFixture } from "../properties/ledger-fixture.ts";
import { ask, type Lab, startLab } from "../support/lab.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { completion } from "../support/upstream.ts";

// contract 3.9: a user's data, for the user and the operator.

let lab: Lab;
const folder = mkdtempSync(join(tmpdir(), "purser-export-"));
beforeAll(async () => {
  lab = await startLab();
  lab.upstream.answer(completion());
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await lab.stop();
});

const download = (path: string, key: string) =>
  fetch(`${lab.service.url}${path}`, { method: "POST", headers: { Authorization: `Bearer ${key}` } });
async function filesIn(answer: Response): Promise<{ names: string[]; text(name: string): string; all: string }> {
  const file = join(folder, "export.zip");
  writeFileSync(file, Buffer.from(await answer.arrayBuffer()));
  const read =
    "import zipfile,json,sys\nz=zipfile.ZipFile(sys.argv[1])\nprint(json.dumps({n:z.read(n).decode() for n in z.namelist()}))";
  const files: Record<string, string> = JSON.parse(execFileSync("python3", ["-c", read, file]).toString());
  const names = Object.keys(files);
  const text = (name: string) => files[name] ?? "";
  return { names, text, all: names.map(text).join("\n") };
}

it("is a valid ZIP with the user's own rows, and without any secret value or key", async () => {
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const other = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  await user.post("/api/v1/secrets", { name: "github", value: "hunter2-very-secret" });
  await user.post("/api/v1/agents", { name: "Scout", model_id: "lab/plain", run_prompt: "Go." });
  await user.post("/api/v1/chat/completions", ask("lab/plain", { user: "ada" }));
  await other.post("/api/v1/agents", { name: "Stranger", model_id: "lab/plain", run_prompt: "Go." });
  const { id: secret_id } = (await user.get("/api/v1/secrets")).body.secrets[0];
  const db = await lab.service.database.open();
  const use =
    "insert into secret_use values ($1, $2, $3, 1, null, null, 'web_fetch', 'api.github.com', 'opened', now())";
  await db.query({ text: use, values: [user.user_id, secret_id, crypto.randomUUID()] });
  await db.close();
  const answer = await download("/api/v1/users/me/export", user.key);
  expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/zip"]);
  const { names, text, all } = await filesIn(answer);
  expect(names).toEqual(expect.arrayContaining(["profile.jsonl", "runs.jsonl", "transactions.csv", "usage.csv"]));
  expect(JSON.parse(text("agents.jsonl"))).toMatchObject({ name: "Scout" });
  expect(JSON.parse(text("agent_versions.jsonl"))).toMatchObject({ version: 1, config: { model_id: "lab/plain" } });
  expect(JSON.parse(text("secret_uses.jsonl"))).toMatchObject({ secret_id, host: "api.github.com", outcome: "opened" });
  expect(JSON.parse(text("usage_events.jsonl"))).toMatchObject({ model: "lab/plain", labels: { user: "ada" } });
  expect(JSON.parse(text("secrets_without_values.jsonl"))).toMatchObject({ name: "github" });
  expect(text("transactions.csv").trim().split("\n")).toHaveLength(3);
  for (const absent of ["hunter2", user.key, "Stranger", "sealed", "key_hash"]) expect(all).not.toContain(absent);
});

it("needs every right to read, and the operator's export is in the log of acts", async () => {
  const user = await lab.service.newUser();
  const narrow = await user.post("/api/v1/api-keys", { name: "billing", scopes: ["billing:read"] });
  expect((await download("/api/v1/users/me/export", narrow.body.key)).status).toBe(403);
  const answer = await download(`/api/v1/admin/users/${user.user_id}/export`, ADMIN_KEY);
  expect(JSON.parse((await filesIn(answer)).text("profile.jsonl"))).toMatchObject({ id: user.user_id });
  expect((await lab.service.admin.get("/api/v1/admin/acts")).body.acts[0]).toMatchObject({ what: "user.export" });
  expect((await download(`/api/v1/admin/users/${crypto.randomUUID()}/export`, ADMIN_KEY)).status).toBe(404);
});

it("a file is not kept in the database for its Idempotency-Key: a retry makes a new one", async () => {
  const user = await lab.service.newUser();
  const headers = { Authorization: `Bearer ${user.key}`, "Idempotency-Key": "export" };
  for (const _ of [1, 2]) {
    const answer = await fetch(`${lab.service.url}/api/v1/users/me/export`, { method: "POST", headers });
    expect([answer.status, answer.headers.get("idempotent-replayed")]).toEqual([200, null]);
    expect((await filesIn(answer)).names).toContain("profile.jsonl");
  }
});

it("that its caller does not read ends after a time, so that it does not keep others from their exports", async () => {
  const { user_id } = await lab.service.newUser();
  const db = await lab.service.database.open();
  const { ledger } = createLedgerFixture(db);
  const exportOf = createUserExport({ db, clock: createSystemClock(), ledger, stalled_ms: 50 });
  const unread = exportOf(user_id);
  expect(() => exportOf(user_id)).toThrow(/try again|retry/i);
  const another = () => {
    try {
      return exportOf(user_id);
    } catch {
      return null;
    }
  };
  let second: Response | null = null;
  await expect
    .poll(() => {
      second ??= another();
      return second?.status;
    })
    .toBe(200);
  await expect(unread.arrayBuffer()).rejects.toThrow("stopped reading");
  await db.close();
});
