import type { Answer } from "./service.ts";

/** A browser as the service sees one: it keeps cookies, and sends the origin of the page. */
export interface Browser {
  cookie(): string;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  patch(path: string, body: unknown): Promise<Answer>;
}

export function openBrowser(url: string, origin = url): Browser {
  const jar = new Map<string, string>();
  const cookie = () => [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
  const request = async (method: string, path: string, headers: Record<string, string>, body?: unknown) => {
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { ...(jar.size > 0 ? { Cookie: cookie() } : {}), "Content-Type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    for (const line of response.headers.getSetCookie()) {
      const [name = "", value = ""] = line.split(";")[0]?.split("=") ?? [];
      if (line.includes("Max-Age=0")) jar.delete(name);
      else jar.set(name, value);
    }
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === "" ? null : JSON.parse(text) };
  };
  return {
    cookie,
    get: (path, headers = { "Sec-Fetch-Site": "same-origin" }) => request("GET", path, headers),
    post: (path, body, headers = { Origin: origin }) => request("POST", path, headers, body ?? {}),
    patch: (path, body) => request("PATCH", path, { Origin: origin }, body),
  };
}
