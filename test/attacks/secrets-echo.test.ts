import type { IncomingHttpHeaders, RequestListener } from "node:http";
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AuthSettings } from "../../src/api/contract/tools.ts";
import { ALL, PLAIN, WRAPPED } from "../support/disguises.ts";
import { leaksIn } from "../support/encodings.ts";
import { pdfOf } from "../support/pdf.ts";
import { scoreOf } from "../support/score.ts";
import { type Site, startSite } from "../support/sites.ts";
import { aCall, toolsWith } from "../support/tools.ts";

// A server sends back a secret that it got (Infisical/cli#397), plain or encoded, in any part of its answer. Each attack is
// one call of web_fetch; no part of the secret may be in its result or reach another host.

const SECRET = "sk_live_9f/Zq+77=Kd&wE 3~x";
const SLOTS: AuthSettings["inject"][] = [
  { type: "bearer" },
  { type: "basic", username: "ada" },
  { type: "header", name: "X-Api-Key" },
  { type: "query", name: "key" },
];
const TYPES = ["text/html", "text/plain", "text/markdown", "application/json", "text/csv", "image/png", ""];
const CODINGS: Record<string, (body: Buffer) => Buffer> = {
  gzip: gzipSync,
  deflate: deflateSync,
  "deflate ": deflateRawSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
};

let site: Site;
let other: Site;
let answer: RequestListener = (_request, response) => response.end();
const score = scoreOf("secrets echoed", "leaks");

beforeAll(async () => {
  site = await startSite({ "/": (request, response) => answer(request, response), "/next": { body: "landed" } });
  other = await startSite({ "/": { body: "elsewhere" } });
});
afterAll(async () => {
  await Promise.all([site.close(), other.close()]);
});

/** Makes one attack, returns the step's code, and counts every leak. */
async function attack(listener: RequestListener, inject: AuthSettings["inject"] = { type: "bearer" }) {
  answer = listener;
  other.requests.length = 0;
  const { tools, reflected } = toolsWith({ allow: [site.host, other.host], secrets: { KEY: SECRET } });
  const auth = [{ secret: "KEY", hosts: [site.host], inject }];
  const tools_config = { web_fetch: { enabled: true, auth } };
  const result = await tools.call(aCall("web_fetch", { url: `${site.url}/` }, { tools_config }));
  score.tried();
  const leaks = leaksIn(Buffer.from(JSON.stringify([result, other.requests])), [SECRET]);
  score.slipped(...leaks);
  expect(leaks).toEqual([]);
  return { code: result.error?.code, out_of_use: reflected.has("KEY"), result };
}
const STOPPED = { code: "secret_reflected", out_of_use: true };
const page = (text: string) => `<html><p>You sent ${text} to us, thank you.</p></html>`;
/** Encodings that write each byte as a character. Beyond ASCII they change the text. */
const ONE_BYTE_EACH = /JSON, all|HTML, /;
/** A Node server's treatment of a header: it reads latin1, and writes UTF-8. */
const written = ({ authorization = "" }: IncomingHttpHeaders) => authorization.replace("Bearer ", "");
const body =
  (text: string, headers: Record<string, string> = {}): RequestListener =>
  (_request, response) => {
    response.writeHead(200, { "content-type": "text/html", ...headers }).end(text);
  };
/** Omits the characters of a header's value that Node does not write. */
const headerSafe = (text: string) => text.replaceAll(/[^\t\x20-\x7e]/g, "");

describe("an echo stops the run and disables the secret", () => {
  it("of letters beyond ASCII, as an ordinary server writes a received header, in every encoding", async () => {
    for (const secret of ["Schlüssel-für-Grüße", "ключ-от-порта", "鍵は第七バースの扉に"]) {
      for (const [name, encode] of PLAIN.filter((each) => !ONE_BYTE_EACH.test(each[0]))) {
        answer = ({ headers }, response) => response.end(JSON.stringify({ you_sent: encode(written(headers)) }));
        const { tools } = toolsWith({ allow: [site.host], secrets: { KEY: secret } });
        const auth = [{ secret: "KEY", hosts: [site.host], inject: { type: "bearer" as const } }];
        const call = aCall(
          "web_fetch",
          { url: `${site.url}/` },
          { tools_config: { web_fetch: { enabled: true, auth } } },
        );
        expect((await tools.call(call)).error?.code, `${secret} ${name}`).toBe("secret_reflected");
      }
    }
  });

  it.each(SLOTS)("in the body, in every encoding and encodings of encodings, sent by $type", async (inject) => {
    for (const [name, encode] of inject.type === "bearer" ? ALL : [...PLAIN, WRAPPED]) {
      expect(await attack(body(page(encode(SECRET))), inject), name).toMatchObject(STOPPED);
    }
  });

  it.each(TYPES)("in an answer of type %j", async (type) => {
    for (const [name, encode] of PLAIN) {
      expect(await attack(body(encode(SECRET), { "content-type": type })), name).toMatchObject(STOPPED);
    }
  });

  it.each(Object.keys(CODINGS))("in a body that is compressed by %s", async (coding) => {
    for (const [name, encode] of PLAIN) {
      const packed = (CODINGS[coding] as (bytes: Buffer) => Buffer)(Buffer.from(page(encode(SECRET))));
      const listener: RequestListener = (_request, response) => {
        response.writeHead(200, { "content-type": "text/html", "content-encoding": coding.trim() }).end(packed);
      };
      expect(await attack(listener), name).toMatchObject(STOPPED);
    }
  });

  it.each([1, 3, 7])("in a body that comes in pieces of %i bytes", async (size) => {
    for (const [name, encode] of PLAIN) {
      const listener: RequestListener = (_request, response) => {
        const text = page(encode(SECRET));
        for (let at = 0; at < text.length; at += size) response.write(text.slice(at, at + size));
        response.end();
      };
      expect(await attack(listener), name).toMatchObject(STOPPED);
    }
  });

  it.each(["x-echo", "set-cookie", "www-authenticate", "content-type", "etag"])("in the header %s", async (header) => {
    for (const [name, encode] of PLAIN) {
      const listener = body("fine", { [header]: headerSafe(`a=${encode(SECRET)}`) });
      expect(await attack(listener), name).toMatchObject(STOPPED);
    }
  });

  it.each([400, 401, 404, 500, 503])("in the page of an error %i", async (status) => {
    for (const [name, encode] of PLAIN) {
      const listener: RequestListener = (_request, response) => {
        response.writeHead(status, { "content-type": "text/html" }).end(page(encode(SECRET)));
      };
      expect(await attack(listener), name).toMatchObject(STOPPED);
    }
  });

  it.each([301, 302, 303, 307, 308])("in the target of a %i, which is not followed", async (status) => {
    for (const [name, encode] of PLAIN) {
      for (const base of [other.url, site.url, ""]) {
        const listener: RequestListener = (_request, response) => {
          response.writeHead(status, { location: headerSafe(`${base}/?q=${encode(SECRET)}`) }).end();
        };
        expect(await attack(listener), name).toMatchObject(STOPPED);
        expect(other.requests).toEqual([]);
      }
    }
  });

  it("at an origin that it was not sent to, after its receiver passed it on", async () => {
    const listener: RequestListener = (_request, response) => {
      response.writeHead(302, { location: `${other.url}/told` }).end();
    };
    const told = await startSite({ "/told": { body: page(SECRET) } });
    const { tools } = toolsWith({ allow: [site.host, told.host], secrets: { KEY: SECRET } });
    answer = (request, response) => {
      if (request.url === "/") response.writeHead(302, { location: `${told.url}/told` }).end();
      else listener(request, response);
    };
    const auth = [{ secret: "KEY", hosts: [site.host], inject: { type: "bearer" as const } }];
    const result = await tools.call(
      aCall("web_fetch", { url: `${site.url}/` }, { tools_config: { web_fetch: { enabled: true, auth } } }),
    );
    score.tried();
    expect(result.error?.code).toBe("secret_reflected");
    expect(told.requests[0]?.headers).not.toHaveProperty("authorization");
    await told.close();
  });

  it("among 5 MB of decoys (g0#168)", async () => {
    const decoys = "sk_live_9f/Zq+77=Kd&wE 3~ ".repeat(100_000);
    expect(await attack(body(`${decoys}${SECRET}${decoys.slice(0, 1_000_000)}`))).toMatchObject(STOPPED);
  });
});

it("an echo in the text of a PDF is not passed on", async () => {
  // The PDF splits the secret, and its reader joins the text.
  const drawn = pdfOf([{ text: [...SECRET].join(")Tj("), size: 12 }]);
  const listener: RequestListener = (_request, response) => {
    response.writeHead(200, { "content-type": "application/pdf" }).end(drawn);
  };
  expect(await attack(listener)).toMatchObject(STOPPED);
});

describe("a secret that a page splits and its reader joins", () => {
  const apart = (between: string) => [...SECRET].join(between);
  it.each([
    ["tags", apart("<b></b>"), "text/html"],
    ["comments", apart("<!-- -->"), "text/html"],
    ["zero-width spaces", apart("\u200b"), "text/html; charset=utf-8"],
    ["soft hyphens", apart("\u00ad"), "text/html; charset=utf-8"],
    ["zero-width joiners in text", apart("\u200d"), "text/plain; charset=utf-8"],
    ["tag characters", [...SECRET].map((c) => `${c}\u{e0041}`).join(""), "text/plain; charset=utf-8"],
  ])("by %s is not passed on", async (_name, text, type) => {
    await attack(body(text, { "content-type": type }));
  });

  it.each(["utf-16le", "utf-16be", "iso-2022-jp"])("by the charset %s is not passed on", async (charset) => {
    const wide = Buffer.from(page(SECRET), "utf16le");
    const bytes = { "utf-16le": wide, "utf-16be": Buffer.from(wide).swap16() }[charset];
    const escaped = Buffer.from([...SECRET].join("\u001b(B"));
    const listener: RequestListener = (_request, response) => {
      response.writeHead(200, { "content-type": `text/html; charset=${charset}` }).end(bytes ?? escaped);
    };
    expect(await attack(listener)).toMatchObject(STOPPED);
  });
});

it("an answer without the secret is passed on", async () => {
  const near = ["sk_live_9f/Zq+77=Kd&wE 3~y", "sk_live_", encodeURIComponent(SECRET).slice(1), "&amp;&#65;%41\\u0041"];
  for (const text of near) {
    const { code, result } = await attack(body(page(text)));
    expect(code).toBeUndefined();
    expect(result.status).toBe("succeeded");
  }
});
