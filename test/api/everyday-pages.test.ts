import { afterAll, beforeAll, expect, it } from "vitest";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { type Site, startSite } from "../support/sites.ts";
import { calling, completion } from "../support/upstream.ts";

// A run over everyday pages. Each page's habits are in test/unit/tools/everyday-pages.test.ts.

let lab: Lab;
let site: Site;
beforeAll(async () => {
  const links = Array.from({ length: 150 }, (_, n) => `<a href="/berths/${n}">Berth ${n}</a> `).join("");
  site = await startSite({
    "/one": { body: Buffer.from(`<p>${"x".repeat(2_000)}<meta charset="windows-1252"><p>Caf\xe9${links}`, "latin1") },
    "/two": { headers: { "content-type": "text/plain" }, body: "请看http://harbour.test/，然后" },
    "/picture": {
      headers: { "content-type": "text/html" },
      body: Buffer.from("89504e470d0a1a0a0000000d49484452", "hex"),
    },
    "/berths/149": { body: "<p>Berth 149 is free</p>" },
  });
  lab = await startLab(undefined, { env: { PURSER_EGRESS_ALLOW: site.host } });
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await site.close();
});

it("reads each page in its charset, follows addresses that touch other text, and asks for the rest of the links", async () => {
  const user = await lab.service.newUser({ trial: false, tokens: 10_000_000 });
  const agent = {
    name: "Pilot",
    model_id: "lab/plain",
    run_prompt: `先读${site.url}/one，再读${site.url}/two。„${site.url}/picture“`,
    tools_config: { web_fetch: { enabled: true } },
  };
  const { id } = (await user.post("/api/v1/agents", agent)).body;
  const fetches = [
    { url: `${site.url}/one` },
    { url: `${site.url}/two` },
    { url: `${site.url}/picture` },
    { url: `${site.url}/one`, links_from: 100 },
    { url: `${site.url}/berths/149` },
    { url: `${site.url}/berths/150` },
  ];
  lab.upstream.answer(...fetches.map((given) => calling("web_fetch", given)), completion("Read."));
  const run = (await user.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=30" })).body;
  expect(run).toMatchObject({ status: "succeeded", output: "Read." });
  const steps = run.steps.filter(({ type }: { type: string }) => type === "tool");
  expect(
    steps.map(({ status, error }: { status: string; error: { code: string } | null }) => error?.code ?? status),
  ).toEqual(["succeeded", "succeeded", "unsupported_content", "succeeded", "succeeded", "egress_refused"]);
  const results = steps.map(({ result }: { result: string | null }) => result);
  expect(results[0]).toContain("Café");
  expect(results[0]).toContain('"links_from": 100');
  expect(results[2]).toContain("the answer is image/png");
  expect(results[3]).toContain("- Berth 149: ");
  expect(results[4]).toContain("Berth 149 is free");
});
