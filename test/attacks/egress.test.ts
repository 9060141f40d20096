import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createOutbound, type OutboundRequest } from "../../src/platform/net/outbound.ts";
import { OutboundError } from "../../src/platform/net/outbound-errors.ts";
import type { Resolve } from "../../src/platform/net/resolver.ts";
import { scoreOf } from "../support/score.ts";
import { type Site, startSite } from "../support/sites.ts";

const GET = { method: "GET", headers: {}, max_bytes: 100_000, timeout_ms: 5_000, max_redirects: 5 };

const score = scoreOf("egress", "escapes");

/** The result of an attack. An answer means that the attack has escaped. */
async function failure(work: Promise<unknown>): Promise<OutboundError> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  score.tried();
  if (error === null) score.slipped("an answer");
  if (!(error instanceof OutboundError)) throw new Error(`expected an OutboundError, got ${String(error)}`);
  return error;
}

const SPELLINGS = [
  "http://127.0.0.1/",
  "http://127.1/",
  "http://127.0.1/",
  "http://2130706433/",
  "http://0x7f000001/",
  "http://0x7f.0x0.0x0.0x1/",
  "http://0177.0.0.1/",
  "http://017700000001/",
  "http://0x7f.1/",
  "http://127.0.0.1./",
  "http://127.255.255.254/",
  "http://0/",
  "http://0.0.0.0/",
  "http://①②⑦.0.0.1/",
  "http://127。0。0。1/",
  "http://１２７.0.0.1/",
  "http://%31%32%37.0.0.1/",
  "http://[::1]/",
  "http://[::]/",
  "http://[0:0:0:0:0:0:0:1]/",
  "http://[::ffff:127.0.0.1]/",
  "http://[::ffff:7f00:1]/",
  "http://[::127.0.0.1]/",
  "http://[64:ff9b::7f00:1]/",
  "http://[64:ff9b:1::7f00:1]/",
  "http://[2002:7f00:1::]/",
  "http://[2001:0:7f00:1::]/",
  "http://[fe80::1]/",
  "http://[fe80::1%25eth0]/",
  "http://[fe80::1%eth0]/",
  "http://[fec0::1]/",
  "http://[fc00::1]/",
  "http://[fd00:ec2::254]/",
  "http://[ff02::1]/",
  "http://[2001:db8::1]/",
  "http://[3fff::1]/",
  "http://[4000::1]/",
  "http://10.0.0.1/",
  "http://172.16.0.1/",
  "http://172.31.255.255/",
  "http://192.168.1.1/",
  "http://169.254.169.254/latest/meta-data/",
  "http://0xa9fea9fe/",
  "http://[::ffff:169.254.169.254]/",
  "http://100.64.0.1/",
  "http://100.100.100.200/",
  "http://168.63.129.16/",
  "http://192.0.0.192/",
  "http://192.0.2.1/",
  "http://198.18.0.1/",
  "http://224.0.0.1/",
  "http://240.0.0.1/",
  "http://255.255.255.255/",
  "http://localhost/",
  "http://localhost./",
  "http://LOCALHOST/",
  "http://127.0.0.1\\@example.com/",
  "http://user@127.0.0.1/",
  "http://user:secret@93.184.215.14/",
  "http://93.184.215.14:22/",
  "http://93.184.215.14:25/",
  "http://93.184.215.14:6379/",
  "http://exam\tple.com/",
  "http:// example.com/",
  "ftp://93.184.215.14/",
  "file:///etc/passwd",
  "gopher://127.0.0.1:6379/_x",
  "data:text/html,x",
  "//127.0.0.1/",
  "",
];

describe("spellings of addresses outside the public internet", () => {
  const outbound = createOutbound({ allow: [], resolve: async () => ["127.0.0.1"] });
  it.each(SPELLINGS)("refuses %s and sends nothing (n8n-mcp CVE-2026-42449)", async (url) => {
    expect((await failure(outbound.request({ ...GET, url }))).code).toBe("egress_refused");
  });
});

describe("names", () => {
  const refusedFor = async (...addresses: string[]) => {
    const outbound = createOutbound({ allow: [], resolve: async () => addresses });
    return (await failure(outbound.request({ ...GET, url: "http://site.example/" }))).code;
  };

  it("one private address among public ones refuses the name", async () => {
    expect(await refusedFor("93.184.215.14", "10.0.0.1")).toBe("egress_refused");
    expect(await refusedFor("2606:2800:21f:cb07::1", "fe80::1%eth0")).toBe("egress_refused");
    expect(await refusedFor("::ffff:10.0.0.1")).toBe("egress_refused");
    expect(await refusedFor("not an address")).toBe("egress_refused");
  });

  it("a name that resolves differently the second time is called only at the checked address (DNS rebinding)", async () => {
    const site = await startSite({ "/": { body: "here" } });
    const answers = [["127.0.0.1"], ["10.255.255.1"]];
    let asked = 0;
    const resolve: Resolve = async () => answers[asked++] ?? [];
    const outbound = createOutbound({ allow: ["127.0.0.0/8"], resolve });
    const response = await outbound.request({ ...GET, url: `http://rebinding.example:${site.port}/` });
    score.tried();
    expect(response.body.toString()).toBe("here");
    expect(asked).toBe(1);
    expect(site.requests[0]?.headers.host).toBe(`rebinding.example:${site.port}`);
    await site.close();
  });

  it("each hop is resolved and checked again: a name must not resolve to a private address after a redirect", async () => {
    const site = await startSite({ "/": { status: 302, headers: { location: "/next" } }, "/next": { body: "inside" } });
    let asked = 0;
    const resolve: Resolve = async () => (asked++ === 0 ? ["127.0.0.1"] : ["10.0.0.1"]);
    const outbound = createOutbound({ allow: ["127.0.0.0/8"], resolve });
    expect((await failure(outbound.request({ ...GET, url: `http://a.example:${site.port}/` }))).code).toBe(
      "egress_refused",
    );
    expect(site.requests).toHaveLength(1);
    await site.close();
  });

  it("a name that never resolves ends with a timeout", async () => {
    const outbound = createOutbound({ allow: [], resolve: () => new Promise<string[]>(() => {}) });
    const error = await failure(outbound.request({ ...GET, url: "http://slow.example/", timeout_ms: 50 }));
    expect(error.code).toBe("timeout");
  });
});

describe("redirects", () => {
  let inner: Site;
  let site: Site;
  const secrets = { authorization: "Bearer s3cret", cookie: "a=b", "x-api-key": "s3cret" };
  const send = (url: string, more: Partial<OutboundRequest> = {}) =>
    createOutbound({ allow: [site.host, inner.host] }).request({ ...GET, url, headers: secrets, ...more });

  beforeAll(async () => {
    inner = await startSite({ "/": { body: "landed" } });
    const target = (location: string) => ({ headers: { location } });
    const pages: Parameters<typeof startSite>[0] = {
      "/": { body: "same" },
      "/loop": { status: 302, ...target("/loop") },
      "/private": { status: 302, ...target("http://169.254.169.254/latest/") },
      "/mapped": { status: 307, ...target("http://[::ffff:10.0.0.1]/") },
      "/file": { status: 302, ...target("file:///etc/passwd") },
      "/userinfo": { status: 302, ...target("http://u:p@93.184.215.14/") },
    };
    for (const status of [301, 302, 303, 307, 308]) {
      pages[`/away/${status}`] = { status, ...target(`${inner.url}/`) };
      pages[`/home/${status}`] = { status, ...target("/") };
    }
    site = await startSite(pages);
  });
  afterAll(async () => {
    await site.close();
    await inner.close();
  });

  it.each([301, 302, 303, 307, 308])(
    "a %i to another origin sends no header and no body (undici#4917)",
    async (status) => {
      inner.requests.length = 0;
      const response = await send(`${site.url}/away/${status}`, { method: "POST", body: "private words" });
      score.tried();
      expect(response.body.toString()).toBe("landed");
      const [seen] = inner.requests;
      expect(seen?.method).toBe("GET");
      expect(seen?.body).toBe("");
      expect(JSON.stringify(seen)).not.toMatch(/s3cret|a=b|private words/);
      expect(seen?.headers).not.toHaveProperty("referer");
    },
  );

  it.each([
    [301, "GET"],
    [302, "GET"],
    [303, "GET"],
    [307, "POST"],
    [308, "POST"],
  ])("a %i on the same origin continues as %s with the caller's headers", async (status, method) => {
    site.requests.length = 0;
    await send(`${site.url}/home/${status}`, { method: "POST", body: "words" });
    const last = site.requests.at(-1);
    expect(last?.method).toBe(method);
    expect(last?.body).toBe(method === "POST" ? "words" : "");
    expect(last?.headers.authorization).toBe("Bearer s3cret");
  });

  it.each(["/private", "/mapped", "/file", "/userinfo"])("%s is refused at its hop", async (path) => {
    expect((await failure(send(site.url + path))).code).toBe("egress_refused");
  });

  it("a loop ends at the limit of redirects", async () => {
    site.requests.length = 0;
    expect((await failure(send(`${site.url}/loop`, { max_redirects: 3 }))).code).toBe("too_many_redirects");
    expect(site.requests).toHaveLength(4);
  });

  it("the caller's own rule is applied to each hop", async () => {
    inner.requests.length = 0;
    const permits = (url: URL) => url.host === site.host;
    expect((await failure(send(`${site.url}/away/302`, { permits }))).code).toBe("egress_refused");
    expect(inner.requests).toHaveLength(0);
  });
});

describe("bodies", () => {
  const big = Buffer.alloc(50_000_000, "a");
  const answer = (encoding: string, body: Buffer) => ({ headers: { "content-encoding": encoding }, body });
  let site: Site;
  const get = (path: string, more: Partial<OutboundRequest> = {}) =>
    createOutbound({ allow: [site.host] }).request({ ...GET, url: site.url + path, ...more });

  beforeAll(async () => {
    const small = Buffer.from("hello");
    site = await startSite({
      "/bomb/gzip": answer("gzip", gzipSync(big)),
      "/bomb/deflate": answer("deflate", deflateSync(big)),
      "/bomb/br": answer("br", brotliCompressSync(big)),
      "/bomb/zstd": answer("zstd", zstdCompressSync(big)),
      "/bomb/twice": answer("gzip, gzip", gzipSync(gzipSync(big))),
      "/ok/gzip": answer("gzip", gzipSync(small)),
      "/ok/deflate": answer("deflate", deflateSync(small)),
      "/ok/raw-deflate": answer("deflate", deflateRawSync(small)),
      "/ok/br": answer("br", brotliCompressSync(small)),
      "/ok/zstd": answer("zstd", zstdCompressSync(small)),
      "/ok/twice": answer("gzip, br", brotliCompressSync(gzipSync(small))),
      "/torn": answer("gzip", gzipSync("a sentence that is cut off in the middle").subarray(0, 30)),
      "/unknown": answer("rot13", small),
      "/stack": answer("gzip, gzip, gzip, gzip", small),
      "/plain": { body: big.subarray(0, 200_000) },
      "/drip": (_request, response) => {
        const timer = setInterval(() => response.write("x"), 10);
        response.on("close", () => clearInterval(timer));
      },
      "/silent": () => {},
      "/cut": (_request, response) => {
        response.writeHead(200, { "content-length": "100" });
        response.write("half", () => response.destroy());
      },
    });
  }, 120_000);
  afterAll(() => site.close());

  it.each(["gzip", "deflate", "br", "zstd", "twice"])("a %s bomb stops at the limit", async (name) => {
    expect((await failure(get(`/bomb/${name}`))).code).toBe("too_large");
  });
  it.each(["gzip", "deflate", "raw-deflate", "br", "zstd", "twice"])("%s is decoded", async (name) => {
    expect((await get(`/ok/${name}`)).body.toString()).toBe("hello");
  });
  it.each(["/torn", "/unknown", "/stack", "/cut"])("%s is reported as a bad answer", async (path) => {
    const error = await failure(get(path));
    expect(error).toMatchObject({ code: "bad_response", status: 200, host: site.host });
  });
  it("a plain body over the limit is cut", async () => {
    expect((await failure(get("/plain"))).code).toBe("too_large");
  });
  it.each(["/drip", "/silent"])("%s is ended by the total time limit", async (path) => {
    expect((await failure(get(path, { timeout_ms: 200 }))).code).toBe("timeout");
  });
  it("a request ends when the caller's signal aborts", async () => {
    const signal = AbortSignal.abort();
    expect((await failure(get("/silent", { signal }))).code).toBe("aborted");
  });
});

describe("what callers may send", () => {
  const outbound = createOutbound({ allow: ["127.0.0.1:9"] });
  const tried = (more: Partial<OutboundRequest>) =>
    failure(outbound.request({ ...GET, url: "http://127.0.0.1:9/", ...more }));

  it.each([
    { "x-a": "1\r\nHost: evil.example" },
    { "x-a": "1\n2" },
    { "x-a": "\0" },
    { "x-a\r\nb": "1" },
    { "x a": "1" },
    { "": "1" },
    { host: "evil.example" },
    { "Content-Length": "0" },
    { "transfer-encoding": "chunked" },
    { connection: "upgrade" },
    { "proxy-authorization": "x" },
  ])("a header that could split or redirect the request is refused: %j", async (headers) => {
    expect((await tried({ headers })).code).toBe("invalid_request");
  });

  it.each(["GET / HTTP/1.1\r\nX: ", "CONNECT", "TRACE", "get", ""])("the method %j is refused", async (method) => {
    expect((await tried({ method })).code).toBe("invalid_request");
  });

  it("no error contains a header, a body or a URL's path (n8n#36836, axios#6919)", async () => {
    const error = await tried({
      url: "http://127.0.0.1:9/t0ken?key=t0ken",
      headers: { authorization: "t0ken" },
      method: "POST",
      body: "t0ken",
    });
    expect(error.code).toBe("connect_failed");
    expect(`${JSON.stringify(error)} ${error.stack} ${error.message} ${String(error.cause)}`).not.toContain("t0ken");
  });
});

describe("PURSER_EGRESS_ALLOW", () => {
  it("a listed name can be reached only on its port", async () => {
    const site = await startSite({ "/": { body: "ok" } });
    const outbound = createOutbound({ allow: [`Intranet.example:${site.port}`], resolve: async () => ["127.0.0.1"] });
    expect((await outbound.request({ ...GET, url: `http://intranet.example:${site.port}/` })).status).toBe(200);
    expect((await failure(outbound.request({ ...GET, url: "http://intranet.example:8080/" }))).code).toBe(
      "egress_refused",
    );
    expect((await failure(outbound.request({ ...GET, url: `http://other.example:${site.port}/` }))).code).toBe(
      "egress_refused",
    );
    await site.close();
  });

  it.each([
    "localhost",
    "10.0.0.0",
    "host:0",
    "host:99999",
    "http://host:80",
    "host:80/path",
    "10.0.0.0/99",
    ":80",
    "u@h:80",
    "",
  ])("%j is rejected at the start, and the error names the entry", (entry) => {
    expect(() => createOutbound({ allow: [entry] })).toThrow(JSON.stringify(entry));
  });

  it("proxies in the environment's variables are not used", async () => {
    const site = await startSite({ "/": { body: "direct" } });
    const proxy = await startSite({ "/": { body: "proxied" } });
    process.env.HTTP_PROXY = proxy.url;
    process.env.http_proxy = proxy.url;
    const sending = createOutbound({ allow: [site.host] }).request({ ...GET, url: site.url });
    const response = await sending.finally(() => {
      delete process.env.HTTP_PROXY;
      delete process.env.http_proxy;
    });
    expect(response.body.toString()).toBe("direct");
    expect(proxy.requests).toHaveLength(0);
    await Promise.all([site.close(), proxy.close()]);
  });
});
