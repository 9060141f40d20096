import { afterEach, expect, it, vi } from "vitest";
import { lazyPage } from "../../../console/src/lazy-page.ts";

const gone = () => Promise.reject(new TypeError("Failed to fetch dynamically imported module"));

afterEach(() => vi.unstubAllGlobals());

function browser({ answers }: { answers: boolean }) {
  const kept = new Map<string, string>();
  const reload = vi.fn();
  vi.stubGlobal("fetch", () => (answers ? Promise.resolve({ ok: true }) : Promise.reject(new TypeError("offline"))));
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
  });
  vi.stubGlobal("location", { reload });
  return reload;
}

it("pointing at a link does not reload the document, even if a new version has removed its page", async () => {
  const reload = browser({ answers: true });
  const page = lazyPage(gone, "Page", () => false);
  await expect(page.preload()).rejects.toThrow("cannot be reached");
  expect(reload).not.toHaveBeenCalled();
});

it("opening a page that a new version has removed reloads the document", async () => {
  const reload = browser({ answers: true });
  void lazyPage(gone, "Page", () => true).preload();
  await vi.waitFor(() => expect(reload).toHaveBeenCalledOnce());
});

it("opening a page while the service is away fails, and opening it again retries", async () => {
  const reload = browser({ answers: false });
  const load = vi.fn(gone);
  const page = lazyPage(load, "Page", () => true);
  await expect(page.preload()).rejects.toThrow("cannot be reached");
  await expect(page.preload()).rejects.toThrow("cannot be reached");
  expect(load).toHaveBeenCalledTimes(2);
  expect(reload).not.toHaveBeenCalled();
});
