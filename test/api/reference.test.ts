import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Service, startService } from "../support/service.ts";

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

const read = async (path: string) => {
  const response = await fetch(`${service.url}${path}`);
  return { status: response.status, type: response.headers.get("content-type") ?? "", text: await response.text() };
};

describe("health (contract 1)", () => {
  it("/livez and /readyz answer 200 without a key", async () => {
    expect((await read("/livez")).status).toBe(200);
    expect((await read("/readyz")).status).toBe(200);
  });

  it("/metrics is Prometheus text and counts the requests", async () => {
    await read("/livez");
    const { status, type, text } = await read("/metrics");
    expect([status, type]).toEqual([200, expect.stringMatching(/^text\/plain/)]);
    const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    expect(lines.length).toBeGreaterThan(5);
    for (const line of lines) expect(line).toMatch(/^[a-zA-Z_:][\w:]*(\{.*\})? [-+.\deE]+(Inf|NaN)?( \d+)?$/);
  });
});

describe("the reference (contract 1)", () => {
  it("/openapi.json is 3.1, every $ref resolves, every path's parameters are declared", async () => {
    const { type, text } = await read("/openapi.json");
    const document = JSON.parse(text);
    expect(type).toMatch(/^application\/json/);
    expect(document.openapi).toMatch(/^3\.1\./);
    const references = [...text.matchAll(/"\$ref":"#\/([^"]+)"/g)].map((match) => match[1] ?? "");
    expect(references.length).toBeGreaterThan(10);
    for (const reference of new Set(references)) {
      const found = reference.split("/").reduce((at, part) => at?.[part], document);
      expect(found, reference).toBeTypeOf("object");
    }
    for (const [path, methods] of Object.entries<Record<string, Operation>>(document.paths)) {
      expect(path).not.toContain(":");
      for (const [method, operation] of Object.entries(methods)) {
        const inPath = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort();
        const declared = (operation.parameters ?? []).filter((each) => each.in === "path").map((each) => each.name);
        if (!("501" in operation.responses)) expect(declared.sort(), `${method} ${path}`).toEqual(inPath);
        expect(operation.summary, `${method} ${path}`).toBeTruthy();
      }
    }
  });

  it("shows for each answer the fields that it has, and null only where null is possible", async () => {
    const { text } = await read("/openapi.json");
    const { paths, components } = JSON.parse(text);
    const shown = (path: string) =>
      paths[path].get.responses[200].content["application/json"].schema.$ref.split("/").at(-1);
    expect(Object.keys(components.schemas[shown("/api/v1/users/me/usage")].properties)).toContain("daily_usage");
    expect(Object.keys(components.schemas.Usage.properties)).toContain("prompt_tokens");
    // an object's schema and "or null" in one allOf leave null out
    expect(text).not.toMatch(/"allOf":\[\{"\$ref":"[^"]+"\},\{"type":\["object","null"\]\}\]/);
  });

  it("declares a security scheme for each that an endpoint names, and one for each endpoint but the public ones", async () => {
    const document = JSON.parse((await read("/openapi.json")).text);
    const schemes = Object.keys(document.components.securitySchemes);
    const open: string[] = [];
    for (const [path, methods] of Object.entries<Record<string, Operation>>(document.paths)) {
      for (const operation of Object.values(methods)) {
        if (operation.security === undefined) open.push(path);
        for (const each of operation.security ?? []) expect(schemes).toEqual(expect.arrayContaining(Object.keys(each)));
      }
    }
    const public_paths = open.filter((path) => !path.startsWith("/api/v1/auth/"));
    expect(public_paths).toEqual(["/api/v1/api-keys/revoke-leaked"]);
  });

  it.each(["/docs", "/"])("%s is a page that loads nothing from elsewhere", async (path) => {
    const { status, type, text } = await read(path);
    expect([status, type]).toEqual([200, expect.stringMatching(/^text\/html/)]);
    expect(text).toMatch(/^\s*<!doctype html>/i);
    const loaded = [...text.matchAll(/<(?:script|link|img|iframe|source|video|object)\b[^>]*>/gi)].map(String);
    expect(loaded.filter((tag) => /\b(?:src|href|data)\s*=\s*["']?(?:https?:)?\/\//i.test(tag))).toEqual([]);
    expect(text).not.toMatch(/@import|url\(\s*["']?(?:https?:)?\/\//i);
  });

  it("/docs shows every endpoint of the document", async () => {
    const document = JSON.parse((await read("/openapi.json")).text);
    const { text } = await read("/docs");
    for (const path of Object.keys(document.paths)) expect(text).toContain(path.replaceAll("&", "&amp;"));
  });
});

interface Operation {
  summary?: string;
  parameters?: { in: string; name: string }[];
  responses: Record<string, unknown>;
  security?: Record<string, string[]>[];
}
