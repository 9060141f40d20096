import { type ComponentType, createElement, use } from "react";
import { ApiError } from "./api/problem.ts";

/** A reload that did not help is not tried again this soon. */
const RELOAD_PAUSE_MS = 10_000;
const RELOADED = "purser.reloaded";

/**
 * A page whose code is loaded when it is first gone to. When that fails, the page that one is on stays, and its link works
 * again as soon as the service does; where the service answers, it has a new version, and the document is loaded anew.
 * @param isGoing whether one is going to a page; where a link is only pointed at, nothing on the page is to be lost.
 */
export function lazyPage(load: () => Promise<object>, name: string, isGoing: () => boolean) {
  let page: ComponentType | undefined;
  let loading: Promise<void> | undefined;
  const preload = (): Promise<void> => {
    loading ??= load().then(
      (module) => {
        page = (module as Record<string, ComponentType>)[name];
      },
      async () => {
        loading = undefined;
        if (isGoing()) await reloadIfNewer();
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
