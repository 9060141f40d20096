import type { HtmlToken } from "./html-tokens.ts";
import { createOpenElements, isVoid } from "./open-elements.ts";

/** The declarative shadow roots of a page (`<template shadowrootmode>`), by the indexes of tokens. */
export interface ShadowRoots {
  /** The element that displays a template's content, by the template. */
  readonly host_of: ReadonlyMap<number, number>;
  /** The slots for which a host has content. Its other content is not displayed. */
  readonly filled: ReadonlyMap<number, ReadonlySet<string>>;
}

const HOSTS = new Set(
  "article aside blockquote body div footer h1 h2 h3 h4 h5 h6 header main nav p section span".split(" "),
);
/** An element of the page's own. */
const OWN_NAME = /^[a-z][^\s/>]*-/;
const NOT_OWN = new Set(
  "annotation-xml color-profile font-face font-face-src font-face-uri font-face-format font-face-name missing-glyph".split(
    " ",
  ),
);

interface Place {
  /** The index of the token, or -1 outside all elements. */
  readonly index: number;
  /** Whether browsers attach a shadow root to it. */
  readonly is_host: boolean;
  /** Whether it is in a template that nothing displays. */
  readonly is_inert: boolean;
}

const isShadowRoot = (token: HtmlToken): boolean =>
  token.type === "open" &&
  token.name === "template" &&
  /^(?:open|closed)$/i.test(token.attributes.get("shadowrootmode") ?? "");

const canHost = (name: string): boolean => HOSTS.has(name) || (OWN_NAME.test(name) && !NOT_OWN.has(name));

/** Finds the shadow roots of a page; null: there are none. */
export function shadowRootsOf(tokens: readonly HtmlToken[]): ShadowRoots | null {
  if (!tokens.some(isShadowRoot)) return null;
  const host_of = new Map<number, number>();
  const hosts = new Set<number>();
  const filled = new Map<number, Set<string>>();
  const outside: Place = { index: -1, is_host: false, is_inert: false };
  const elements = createOpenElements<Place>(outside, { isHidden: () => false, isHiddenWhole: () => false });
  const fill = ({ index }: Place, slot: string) => {
    const slots = filled.get(index) ?? new Set();
    filled.set(index, slots.add(slot));
  };
  tokens.forEach((token, index) => {
    if (token.type === "text" && /\S/.test(token.text)) fill(elements.state(), "");
    if (token.type === "close") elements.close(token.name);
    if (token.type !== "open") return;
    elements.closeImplied(token.name);
    const parent = elements.state();
    const is_root = isShadowRoot(token) && parent.is_host && !parent.is_inert && !hosts.has(parent.index);
    if (is_root) {
      hosts.add(parent.index);
      host_of.set(index, parent.index);
    } else fill(parent, token.attributes.get("slot") ?? "");
    const is_foreign = elements.isForeign(token.name);
    if (isVoid(token.name) || (token.is_self_closed && is_foreign)) return;
    elements.push(token.name, {
      index,
      is_host: canHost(token.name) && !is_foreign,
      is_inert: parent.is_inert || (token.name === "template" && !is_root),
    });
  });
  return { host_of, filled };
}

/** What a shadow root changes in the look of an element. */
export interface ShadowLook {
  /** The technique that hides it with all its children, or null. */
  readonly hidden_by: string | null;
  /** The host in whose shadow root it is, or null. */
  readonly shadow_of: number | null;
  /** Itself, if it has a shadow root: its slots decide what of its content is displayed, and how. Otherwise null. */
  readonly host: number | null;
}

/** The looks of each host's slots by their names. */
export type Slots<Look> = Map<number, Map<string, Look>>;

type OpenToken = HtmlToken & { type: "open" };
interface ShadowOptions<Look> {
  shadows: ShadowRoots | null;
  /** The slots that a first reading of the page has found; null in that reading. */
  slots: Slots<Look> | null;
  lookOf: (token: OpenToken, outer: Look) => Look;
}

/** The looks of elements on a page with shadow roots: content of a host looks as the slot that displays it. */
export function createShadowLooks<Look extends ShadowLook & { readonly context: unknown }>({
  shadows,
  slots,
  lookOf,
}: ShadowOptions<Look>) {
  const hosts = new Set(shadows?.host_of.values());
  const found: Slots<Look> = new Map();

  /** The look around an element or text in this element. */
  function inside(look: Look, slot: string): Look {
    if (look.host === null) return look;
    if (slots === null || look.hidden_by !== null) return { ...look, host: null };
    const shown = slots.get(look.host)?.get(slot);
    if (shown === undefined) return { ...look, host: null, hidden_by: "not-slotted" };
    return { ...shown, host: null, context: look.context, shadow_of: look.shadow_of };
  }

  function lookOfSlot(look: Look, { attributes }: OpenToken, host: number): Look {
    const name = attributes.get("name") ?? "";
    const own = found.get(host) ?? new Map<string, Look>();
    found.set(host, own);
    if (!own.has(name)) own.set(name, look);
    // A slot's own content is displayed only if nothing fills it.
    const is_filled = shadows?.filled.get(host)?.has(name) === true;
    return is_filled && look.hidden_by === null ? { ...look, hidden_by: "fallback-content" } : look;
  }

  /** The look of an element. */
  function lookAt(token: OpenToken, index: number, around: Look): Look {
    const shadow_of = shadows?.host_of.get(index);
    if (shadow_of !== undefined) return { ...around, host: null, shadow_of };
    const look = lookOf(token, inside(around, token.attributes.get("slot") ?? ""));
    if (hosts.has(index)) return { ...look, host: index };
    return token.name === "slot" && look.shadow_of !== null ? lookOfSlot(look, token, look.shadow_of) : look;
  }

  return { inside, lookAt, slots: found };
}
