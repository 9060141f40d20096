import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type ContentKind, sanitize } from "../../src/safety/sanitize.ts";

// Sentences that the detector misses (training/adaptive.txt). In places that no reader sees they must not get through
// either.
const sentences = readFileSync(join(import.meta.dirname, "../../training/adaptive.txt"), "utf8")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("# "));

/** It shares no letters with the sentences, because a mark that a text repeats is removed from the text. */
const MARK = "0123456789abcdef";
const TAG = (text: string) => Array.from(text, (char) => String.fromCodePoint(0xe0000 + (char.codePointAt(0) ?? 0)));

const HIDING: [string, ContentKind, (text: string) => string][] = [
  ["a comment", "html", (text) => `<p>Page</p><!-- ${text} -->`],
  ["display:none", "html", (text) => `<p>Page</p><div style="display:none">${text}</div>`],
  ["a style rule", "html", (text) => `<style>.q{opacity:0}</style><p>Page</p><div class=q>${text}</div>`],
  ["the hidden attribute", "html", (text) => `<p>Page</p><p hidden>${text}</p>`],
  ["off screen", "html", (text) => `<p>Page</p><p style="position:fixed;top:-5000px">${text}</p>`],
  ["white on white", "html", (text) => `<p>Page</p><p style="color:#fffffe">${text}</p>`],
  ["no size", "html", (text) => `<p>Page</p><p style="font-size:0.1px">${text}</p>`],
  ["an alternative text", "html", (text) => `<p>Page</p><img alt='${text.replaceAll("'", "")}'>`],
  ["metadata", "html", (text) => `<meta name=description content='${text.replaceAll("'", "")}'><p>Page</p>`],
  [
    "JSON in a script",
    "html",
    (text) => `<script type="application/ld+json">${JSON.stringify(text)}</script><p>Page</p>`,
  ],
  ["a template", "html", (text) => `<template>${text}</template><p>Page</p>`],
  ["noscript", "html", (text) => `<noscript>${text}</noscript><p>Page</p>`],
  ["a Markdown comment", "markdown", (text) => `Page\n\n[//]: # (${text.replaceAll(/[()]/g, "")})\n`],
  ["tag characters", "text", (text) => `Page ${TAG(text).join("")}`],
];

describe("an instruction that the detector misses", () => {
  it.each(HIDING)("does not get through in %s", (_name, kind, hide) => {
    for (const sentence of sentences) {
      const { text } = sanitize({ content: hide(sentence), kind, level: "balanced", mark: MARK });
      expect(text).toContain("Page");
      expect(text).not.toContain(sentence.slice(0, 20));
    }
  });
});
