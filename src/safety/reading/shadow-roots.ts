import { attributeOf, type Element, isHtml, isTemplate } from "./page-tree.ts";

/** The elements on which browsers attach a declarative shadow root (`<template shadowrootmode>`), besides a page's own. */
const HOSTS = new Set(
  "article aside blockquote body div footer h1 h2 h3 h4 h5 h6 header main nav p section span".split(" "),
);
const OWN_NAME = /^[a-z][^\s/>]*-/;
const NOT_OWN = new Set(
  "annotation-xml color-profile font-face font-face-src font-face-uri font-face-format font-face-name missing-glyph".split(
    " ",
  ),
);

/** The template whose content browsers display in place of the element's own; null: none. */
export function shadowRootOf(element: Element) {
  const { tagName, childNodes } = element;
  const can_host = isHtml(element) && (HOSTS.has(tagName) || (OWN_NAME.test(tagName) && !NOT_OWN.has(tagName)));
  if (!can_host) return null;
  for (const node of childNodes) {
    if (isTemplate(node) && /^(?:open|closed)$/i.test(attributeOf(node, "shadowrootmode") ?? "")) return node;
  }
  return null;
}
