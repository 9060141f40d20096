import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ToolsConfig } from "../../../src/api/contract/tools.ts";
import {
  CHARSET_HABITS,
  HEADER_HABITS,
  LINK_HABITS,
  LOCATION_HABITS,
  startPageHabits,
  TYPE_HABITS,
} from "../../support/everyday-servers.ts";
import { type Site, startSite } from "../../support/sites.ts";
import { aCall, toolsWith } from "../../support/tools.ts";

describe.each([
  ["the charset of a page", CHARSET_HABITS],
  ["the headers of an answer", HEADER_HABITS],
  ["the type of an answer", TYPE_HABITS],
  ["the addresses in an answer", LINK_HABITS],
] as const)("%s is read as browsers and people do:", (_what, rows) => {
  let site: Awaited<ReturnType<typeof startPageHabits>>;
  beforeAll(async () => {
    site = await startPageHabits(rows);
  });
  afterAll(() => site.close());

  it.each(rows)("$habit", async (row) => {
    const { tools } = toolsWith({ allow: [site.host] });
    const tools_config: ToolsConfig = { web_fetch: { enabled: true } };
    const { status, result, links, error, safety } = await tools.call(
      aCall("web_fetch", { url: site.addressOf(row) }, { tools_config }),
    );
    const own = (text: string) => text.replaceAll("~", site.url);
    if (row.refused !== undefined) {
      expect([status, error?.code, safety]).toEqual(["failed", "unsupported_content", null]);
      expect(result).toContain(row.refused);
      return;
    }
    expect([status, result]).toEqual(["succeeded", expect.any(String)]);
    for (const text of row.reads ?? []) expect(result).toContain(own(text));
    for (const text of row.hides ?? []) expect(result).not.toContain(text);
    if (row.links?.length === 0) expect(links).toEqual([]);
    expect(links).toEqual(expect.arrayContaining((row.links ?? []).map(own)));
  });
});

const fetched = async (
  site: Site,
  path: string,
  more: { links_from?: number; tainted_by?: readonly string[] } = {},
) => {
  const { tools } = toolsWith({ allow: [site.host] });
  const tools_config: ToolsConfig = { web_fetch: { enabled: true } };
  const { links_from, tainted_by } = more;
  const taint = { tainted: tainted_by !== undefined, owner_text: "", links: new Set(tainted_by) };
  return tools.call(aCall("web_fetch", { url: site.url + path, links_from }, { tools_config, taint }));
};

describe("a redirect", () => {
  it.each(LOCATION_HABITS)("is followed as browsers do: $location", async ({ location, asks }) => {
    const site = await startSite({
      "/from": (request, response) => {
        if (request.url === "/from") response.writeHead(302, { location });
        response.end("arrived");
      },
    });
    await fetched(site, "/from");
    expect(site.requests.map(({ path }) => path)).toEqual(["/from", asks]);
    await site.close();
  });

  const cookieSite = (set: Record<string, string[]>) =>
    startSite(
      Object.fromEntries(
        Object.entries(set).map(([path, lines]) => [
          path,
          (request, response) => {
            const is_known = request.headers.cookie !== undefined;
            if (!is_known) response.writeHead(302, { location: path, "set-cookie": lines });
            response.end(is_known ? `known: ${request.headers.cookie}` : "");
          },
        ]),
      ),
    );

  it("of a page to itself, until it sees its cookie, is followed with the cookie", async () => {
    const site = await cookieSite({
      "/one": ["seen=1; Path=/; HttpOnly; SameSite=Lax"],
      "/two": [
        "a=1; Expires=Wed, 01 Jan 2098 00:00:00 GMT",
        "b=x=y; Max-Age=60",
        "gone=1; Max-Age=0",
        "far=1; Path=/other",
      ],
    });
    expect((await fetched(site, "/one")).result).toContain("known: seen=1");
    expect((await fetched(site, "/two")).result).toContain("known: a=1; b=x=y");
    // No cookie is left for another fetch.
    site.requests.length = 0;
    await fetched(site, "/one");
    expect(site.requests.map(({ headers }) => headers.cookie)).toEqual([undefined, "seen=1"]);
    await site.close();
  });

  it("takes no cookie to another host, nor one that needs https to http, and deletes one that is over", async () => {
    const other = await startSite({ "/": { body: "other" } });
    const site = await startSite({
      "/away": { status: 302, headers: { location: `${other.url}/`, "set-cookie": "a=1" } },
      "/secure": { status: 302, headers: { location: "/end", "set-cookie": "a=1; Secure" } },
      "/set": { status: 302, headers: { location: "/unset", "set-cookie": "a=1; Domain=example.test" } },
      "/unset": {
        status: 302,
        headers: { location: "/end", "set-cookie": "a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT" },
      },
    });
    const { tools } = toolsWith({ allow: [site.host, other.host] });
    const tools_config: ToolsConfig = { web_fetch: { enabled: true } };
    for (const path of ["/away", "/secure", "/set"])
      await tools.call(aCall("web_fetch", { url: site.url + path }, { tools_config }));
    const cookies = [...site.requests, ...other.requests].map(({ path, headers }) => `${path} ${headers.cookie}`);
    expect(cookies.filter((each) => !each.endsWith("undefined"))).toEqual(["/unset a=1"]);
    await Promise.all([site.close(), other.close()]);
  });
});

describe("the links of a page beyond the listed hundred", () => {
  let site: Site;
  const link = (n: number) => `<a href="/berths/${n}">Berth ${n}</a> `;
  const many = Array.from({ length: 620 }, (_, n) => link(n)).join("");
  beforeAll(async () => {
    site = await startSite({
      "/few": { body: link(1) },
      "/many": { body: `<p>Berths</p>${many}` },
      "/long": { body: `<p>${"Berths are free. ".repeat(7_000)}</p>${many}` },
      "/odd": { body: `${link(1)}<a href="/picture"><img src=x></a><a href="/long">${"long ".repeat(40)}</a>` },
      "/text": {
        headers: { "content-type": "text/plain" },
        body: `http://h.test/one ${"word ".repeat(21_000)} http://h.test/two`,
      },
    });
  });
  afterAll(() => site.close());
  const listed = (result: string) => [...result.matchAll(/\/berths\/(\d+)$/gm)].map(([, n]) => Number(n));
  const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => from + n);

  it("are told, and listed by a second call, which returns no text", async () => {
    const first = await fetched(site, "/many");
    expect(listed(first.result)).toEqual(numbers(0, 100));
    expect(first.result).toMatch(
      /\n\[520 links of it are not listed here: web_fetch with "links_from": 100 lists them\]$/,
    );
    const second = await fetched(site, "/many", { links_from: 100 });
    expect(listed(second.result)).toEqual(numbers(100, 600));
    expect(second.result).not.toContain("Berths\n");
    expect(second.result).toContain(
      '[20 links of it are not listed here: web_fetch with "links_from": 600 lists them]',
    );
    const third = await fetched(site, "/many", { links_from: 600 });
    expect(listed(third.result)).toEqual(numbers(600, 620));
    expect(third.result).not.toContain("not listed here");
    expect((await fetched(site, "/many", { links_from: 5_000 })).result).toContain("begin: text from outside");
    expect((await fetched(site, "/few")).result).not.toContain("not listed here");
  });

  it("may be opened once they are listed, and the page itself may be fetched again for them", async () => {
    const first = await fetched(site, "/many");
    const second = await fetched(site, "/many", { links_from: 100, tainted_by: first.links });
    expect(second.status).toBe("succeeded");
    const open = async (links: readonly string[], n: number) =>
      (await fetched(site, `/berths/${n}`, { tainted_by: links })).error?.code;
    expect(await open(first.links, 99)).toBe("http_error");
    expect(await open(first.links, 599)).toBe("egress_refused");
    expect(await open([...first.links, ...second.links], 599)).toBe("http_error");
  });

  it("are listed also if the text of the page is cut off", async () => {
    const { result } = await fetched(site, "/long");
    expect(listed(result)).toEqual(numbers(0, 100));
    expect(result).toMatch(/\n\[cut here: \d+ more characters\]\n/);
    expect(result).toContain('[520 links of it are not listed here: web_fetch with "links_from": 100 lists them]');
  });

  it("include those without a text and with a long one", async () => {
    expect((await fetched(site, "/odd")).result).toContain("[2 links of it are not listed here");
    const { result } = await fetched(site, "/odd", { links_from: 1 });
    expect(result).toContain(`\n- ${site.url}/picture\n- ${"long ".repeat(16)}…: ${site.url}/long`);
  });

  it("include the addresses in the part of a text that is cut off", async () => {
    const { result, links } = await fetched(site, "/text");
    expect(result).toContain("\n\nLinks:\n- http://h.test/two\n[cut here:");
    expect(links).toEqual(["http://h.test/one", "http://h.test/two"]);
  });

  it.each([null, 0])(
    "are not asked for by %j, which models write for an argument that they leave out",
    async (links_from) => {
      expect((await fetched(site, "/many", { links_from: links_from as number })).result).toContain("Berths\n");
    },
  );

  it.each(["all", 7.5, -1])("cannot be asked for by %j", async (links_from) => {
    const { error } = await fetched(site, "/few", { links_from: links_from as number });
    expect(error?.code).toBe("invalid_arguments");
  });
});
