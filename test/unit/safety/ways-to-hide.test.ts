import { expect, it } from "vitest";
import { visibleText } from "../../../src/safety/reading/visible.ts";
import { INHERITED_WAYS, WAYS } from "../../../src/safety/reading/ways-to-hide.ts";

type WayName = (typeof WAYS)[number]["way"] | (typeof INHERITED_WAYS)[number]["way"];

const attributes = Array.from({ length: 257 }, (_, at) => `a${at}`).join(" ");
const styled = (css: string) => `<p style="${css}">¤</p>`;

/** For each row of the table: content that it hides, and similar content that stays. `¤` is the text. */
const EXAMPLES: Record<WayName, { hidden: readonly string[]; shown: readonly string[] }> = {
  "too many attributes": { hidden: [`<p ${attributes}>¤</p>`], shown: [`<p ${attributes.slice(0, 400)}>¤</p>`] },
  "the attribute hidden": {
    hidden: ["<p hidden>¤</p>", "<p hidden=until-found style=display:block>¤</p>"],
    shown: ["<p hidden style=display:block>¤</p>", "<p class=hidden>¤</p>"],
  },
  "a name for screen readers only": {
    hidden: ["<p class=sr-only>¤</p>", '<p class="a visually-hidden">¤</p>'],
    shown: ["<p class=sr-only-not>¤</p>"],
  },
  "a closed popover or dialog": {
    hidden: ["<div popover>¤</div>", "<dialog>¤</dialog>"],
    shown: ["<div popover style=display:block>¤</div>", "<dialog open>¤</dialog>"],
  },
  "a dialog that screen readers skip": {
    hidden: ["<div role=dialog aria-hidden=true>¤</div>", "<ul role=menu aria-hidden=true><li>¤</ul>"],
    shown: ["<div role=dialog>¤</div>", "<div aria-hidden=true>¤</div>", "<div role=dialog aria-hidden=false>¤</div>"],
  },
  "an option with a label": {
    hidden: ["<select><option label=x>¤</option></select>"],
    shown: ["<select><option>¤</option></select>", "<select><option label>¤</option></select>"],
  },
  "SVG text without paint": {
    hidden: ["<svg><text fill=none>¤</text></svg>", "<svg><text fill-opacity=0>¤</text></svg>"],
    shown: ["<svg><text>¤</text></svg>", "<svg fill=none><text fill=#000>¤</text></svg>"],
  },
  "display: none": {
    hidden: [styled("display:none"), styled("display:table-column")],
    shown: [styled("display:none;display:block"), styled("display:inline-block"), styled("display:nothing")],
  },
  "content-visibility: hidden": {
    hidden: [styled("content-visibility:hidden")],
    shown: [styled("content-visibility:auto")],
  },
  opacity: {
    hidden: [styled("opacity:0"), styled("opacity:2%"), styled("filter:opacity(0)")],
    shown: [styled("opacity:.5"), styled("opacity:0;opacity:1"), styled("filter:blur(1px)")],
  },
  "an empty mask": {
    hidden: [styled("mask:linear-gradient(transparent,transparent)")],
    shown: [styled("mask:linear-gradient(black,transparent)")],
  },
  "a place off the screen": {
    hidden: [styled("position:absolute;left:-9999px"), styled("position:fixed;inset-block-start:-200vh")],
    shown: [styled("left:-9999px"), styled("position:absolute;left:-10px"), styled("position:static;top:-9999px")],
  },
  "a shift off the screen": {
    hidden: [
      styled("text-indent:-9999px"),
      styled("margin-inline-start:-9999px"),
      styled("transform:translateX(-9999px)"),
    ],
    shown: [styled("text-indent:-1em"), styled("margin:0 -15px"), styled("translate:-50% -50%")],
  },
  "a scale of nothing": {
    hidden: [styled("transform:scale(0)"), styled("scale:0"), styled("transform:matrix(0,0,0,0,0,0)")],
    shown: [styled("transform:scale(.5)"), styled("scale:1 1"), styled("transform:matrix(1,0,0,1,0,0)")],
  },
  "an empty clip": {
    hidden: [
      styled("position:absolute;clip:rect(0 0 0 0)"),
      styled("clip-path:inset(50%)"),
      styled("clip-path:circle(0)"),
    ],
    shown: [
      styled("clip-path:inset(10%)"),
      styled("clip:auto"),
      styled("position:absolute;clip:rect(auto,auto,auto,auto)"),
    ],
  },
  "a box of no size": {
    hidden: [styled("overflow:hidden;height:0"), styled("overflow:clip;inline-size:1px")],
    shown: [styled("height:0"), styled("overflow:hidden;height:2em"), styled("overflow:visible;width:0")],
  },
  "the element script": { hidden: ["<script>¤</script>"], shown: ["<b>¤</b>"] },
  "the element style": { hidden: [], shown: ["<b>¤</b>"] },
  "the element template": {
    hidden: ["<template>¤</template>"],
    shown: ["<div><template shadowrootmode=open>¤</template></div>"],
  },
  "the element noscript": { hidden: ["<noscript><p>¤</p></noscript>"], shown: ["<p>¤</p>"] },
  "the element noembed": { hidden: ["<noembed>¤</noembed>"], shown: ["<p>¤</p>"] },
  "the element noframes": { hidden: ["<noframes>¤</noframes>"], shown: ["<p>¤</p>"] },
  "content in place of what a browser shows": {
    hidden: [
      "<video>¤</video>",
      "<meter>¤</meter>",
      "<math><semantics><mi>x</mi><annotation>¤</annotation></semantics></math>",
    ],
    shown: ["<figure>¤</figure>", "<button>¤</button>", "<textarea>¤</textarea>"],
  },
  "visibility: hidden": {
    hidden: [styled("visibility:hidden"), "<div style=visibility:collapse><b style=visibility:inherit>¤</b></div>"],
    shown: [styled("visibility:visible"), "<div style=visibility:hidden><b style=visibility:visible>¤</b></div>"],
  },
  "text of SVG outside its text elements": {
    hidden: ["<svg>¤</svg>", "<svg><g>¤</g></svg>"],
    shown: ["<svg><text>¤</text></svg>", "<svg><foreignObject><p>¤</p></foreignObject></svg>"],
  },
  "tiny type": {
    hidden: [styled("font-size:0"), styled("font:1px serif"), styled("zoom:.01")],
    shown: [styled("font-size:9px"), "<div style=font-size:0><b style=font-size:1rem>¤</b></div>"],
  },
  "a transparent colour": {
    hidden: [
      styled("color:transparent"),
      styled("color:rgb(0 0 0 / 0)"),
      styled("-webkit-text-fill-color:transparent"),
    ],
    shown: [
      styled("color:rgb(0 0 0 / 50%)"),
      styled("color:transparent;background:linear-gradient(red,blue);background-clip:text"),
    ],
  },
  "the colour of the background": {
    hidden: [styled("color:#fff"), styled("color:hwb(0 100% 0%)"), styled("background:navy;color:#000080")],
    shown: [
      styled("background:#fff url(x.png);color:#fff"),
      styled("color:#333"),
      `<link rel=stylesheet href=x>${styled("color:#fff")}`,
    ],
  },
};

it.each([...WAYS, ...INHERITED_WAYS])("$way: $why", ({ way, technique }) => {
  const read = (html: string) => visibleText(`<p>Before</p>${html.replace("¤", "the hidden words")}<p>After</p>`);
  for (const html of EXAMPLES[way].hidden) {
    const { text, hidden } = read(html);
    expect([html, text]).toEqual([html, expect.stringMatching(/^Before(?!.*hidden words)[\s\S]*After$/s)]);
    expect([html, hidden]).toEqual([html, [{ technique, text: expect.stringContaining("the hidden words") }]]);
  }
  for (const html of EXAMPLES[way].shown)
    expect([html, read(html).text]).toEqual([html, expect.stringContaining("the hidden words")]);
});
