import { type ComponentType, createElement, use } from "react";
import { ApiError } from "./api/problem.ts";

/** Least time between two reloads. */
const RELOAD_PAUSE_MS = 10_000;
const RELOADED = "purser.reloaded";

/**
 * A page whose code loads on the first visit. If that fails and the service does not answer, the current page stays. If the
 * service answers, it has a newer version, and the browser reloads the document.
 * @param isNavigating false: the pointer is only over a link. Then the document is not reloaded.
 */
export function lazyPage(load: () => Promise<object>, name: string, isNavigating: () => boolean) {
  let page: ComponentType | undefined;
  let loading: Promise<void> | undefined;
  const preload = (): Promise<void> => {
    loading ??= load().then(
      (module) => {
        page = (module as Record<string, ComponentType>)[name];
      },
      async () => {
        loading = undefined;
        if (isNavigating()) await reloadIfNewer();
        throw ApiError.unreachable();
      },
    );
    return loading;
  };
  const Page = () => {
    if (page === undefined) use(preload());
    return page === undefined ? null : createElement(page);
  };
  return Object.assign(Page, { preload });
}

async function reloadIfNewer(): Promise<void> {
  const answers = await fetch("/livez")
    .then(({ ok }) => ok)
    .catch(() => false);
  if (!answers || Date.now() - Number(sessionStorage.getItem(RELOADED)) < RELOAD_PAUSE_MS) return;
  sessionStorage.setItem(RELOADED, String(Date.now()));
  location.reload();
  await new Promise(() => {});
}
