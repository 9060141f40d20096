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

it("a link that is only pointed at loads no document anew, though its page is gone with a new version", async () => {
  const reload = browser({ answers: true });
  const page = lazyPage(gone, "Page", () => false);
  await expect(page.preload()).rejects.toThrow("cannot be reached");
  expect(reload).not.toHaveBeenCalled();
});

it("going to a page that is gone with a new version loads the document anew", async () => {
  const reload = browser({ answers: true });
  void lazyPage(gone, "Page", () => true).preload();
  await vi.waitFor(() => expect(reload).toHaveBeenCalledOnce());
});

it("going to a page while the service is away fails, and is tried anew when gone to again", async () => {
  const reload = browser({ answers: false });
  const load = vi.fn(gone);
  const page = lazyPage(load, "Page", () => true);
  await expect(page.preload()).rejects.toThrow("cannot be reached");
  await expect(page.preload()).rejects.toThrow("cannot be reached");
  expect(load).toHaveBeenCalledTimes(2);
  expect(reload).not.toHaveBeenCalled();
});
