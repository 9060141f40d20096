import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Certified, selfSigned } from "../support/certificate.ts";
import { scoreOf } from "../support/score.ts";
import { aCall, toolsWith } from "../support/tools.ts";

// An attacker between the service and a host answers in the host's place, with an untrusted certificate or with another
// host's certificate.

const SECRET = "sk_live_tls_9fZq77KdwE3x";
const score = scoreOf("secrets over TLS", "leaks");
const [known, unknown] = [selfSigned("known.example"), selfSigned("unknown.example")];
const servers: Server[] = [];
const seen: (string | undefined)[] = [];
const ports: number[] = [];

async function start({ key, cert }: Certified): Promise<number> {
  const server = createServer({ key, cert }, (request, response) => {
    seen.push(request.headers.authorization);
    response.end("<p>inside</p>");
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

const trusted = getCACertificates("default");
beforeAll(async () => {
  setDefaultCACertificates([...trusted, known.cert]);
  ports.push(await start(known), await start(unknown));
});
afterAll(() => {
  setDefaultCACertificates(trusted);
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

/** One fetch with the secret. The address is allowed as a network, so plain http would not get the secret. */
async function fetched(host: string, port: number) {
  seen.length = 0;
  const { tools } = toolsWith({
    allow: ["127.0.0.0/8"],
    secrets: { KEY: SECRET },
    resolve: async () => ["127.0.0.1"],
  });
  const auth = [{ secret: "KEY", hosts: [`${host}:${port}`], inject: { type: "bearer" as const } }];
  const url = `https://${host}:${port}/`;
  return tools.call(aCall("web_fetch", { url }, { tools_config: { web_fetch: { enabled: true, auth } } }));
}

it("a secret is sent to a host with a valid certificate", async () => {
  const [port = 0] = ports;
  expect((await fetched("known.example", port)).result).toContain("inside");
  expect(seen).toEqual([`Bearer ${SECRET}`]);
});

it.each<[string, string, 0 | 1]>([
  ["that is not trusted", "unknown.example", 1],
  ["of another host", "other.example", 0],
])(
  "nothing is sent to a server with a certificate %s, even if the environment says to trust all",
  async (_, host, which) => {
    for (const setting of [undefined, "0"]) {
      if (setting !== undefined) process.env.NODE_TLS_REJECT_UNAUTHORIZED = setting;
      const result = await fetched(host, ports[which] ?? 0).finally(() => {
        delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
      });
      score.tried();
      score.slipped(...seen.map(String));
      expect(result).toMatchObject({ status: "failed", error: { code: "fetch_failed" } });
      expect(seen).toEqual([]);
    }
  },
);
