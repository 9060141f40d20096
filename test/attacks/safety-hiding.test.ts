import { describe, expect, it } from "vitest";
import { visibleText } from "../../src/safety/reading/visible.ts";

// Chromium displays "Before" and "After" of each page and never HIDDEN. The other pages occur on ordinary sites.

const HIDDEN = "zebra quartz umbrella";
const page = (inner: string, head = "") =>
  `<!doctype html><html><head>${head}</head><body><p>Before</p>${inner}<p>After</p></body></html>`;
const styled = (css: string, open = "<p class=x>") =>
  page(`${open}${HIDDEN}${open.replace(/<(\w+).*/, "</$1>")}`, `<style>${css}</style>`);
const inline = (css: string) => page(`<p style="${css}">${HIDDEN}</p>`);

function expectHidden(html: string) {
  const { text, hidden } = visibleText(html);
  expect(text).toContain("Before");
  expect(text).toContain("After");
  expect(text).not.toContain(HIDDEN);
  // Removed text is checked, too.
  expect(hidden.map((each) => each.text).join()).toContain(HIDDEN);
}

const expectShown = (html: string) => expect(visibleText(html).text).toContain(HIDDEN);

describe("a declaration that browsers ignore does not show hidden text", () => {
  it.each([
    inline("display:none;display:x"),
    page(`<p hidden style="display:x">${HIDDEN}</p>`),
    page(`<p hidden=until-found style="display:block">${HIDDEN}</p>`),
    inline("display:none;--a:';display:block;'"),
    inline("display:none;--a:{;display:block;}"),
    inline("display:none;a:url(x;display:block;)"),
    inline("display:none;a:(;display:block;)"),
    inline("display:none;a:b\\3b display:block"),
    inline("display:none;dis/**/play:block"),
    inline("visibility:hidden;visibility:shown"),
    inline("opacity:0;opacity:full"),
    inline("font-size:0;font-size:16"),
    inline("color:#fff;color:#12345"),
    inline("position:absolute;left:-9999px;left:x;position:x"),
    inline("transform:scale(0);transform:grow(1)"),
    inline("overflow:hidden;height:0;height:9"),
    inline(`display:${" ".repeat(300)}none`),
    inline("display:none!important;display:block"),
    inline("display:none;display:block none"),
    inline("position:absolute;left:-9999px;left:calc(5)"),
    inline("overflow:hidden;height:0;height:calc(1px+2)"),
    inline("color:#fff;color:rgb(a,b,c)"),
    inline("color:#fff;background:nothing"),
    inline("font-size:0;font:big serif"),
    inline("transform:scale(0);transform:rotate(far)"),
    inline("clip:rect(0,0,0,0);clip:rect(9px)"),
    inline("overflow:hidden;overflow:shown;width:0;width:-5px"),
  ])("%s", expectHidden);
});

describe("the rule that has priority in browsers decides", () => {
  it.each([
    styled(".x{display:none!important}", "<p class=x style='display:block'>"),
    styled(".y{display:block}.x{display:none}", "<p class='x y'>"),
    styled(".x{display:none}.y{display:block}.x{display:none}", "<p class='x y'>"),
    styled("#x{display:none}.x.x.x{display:block}", "<p id=x class=x>"),
    styled("ASIDE{display:none}", "<aside>"),
    styled(".x.y{display:none}", "<p class='y x'>"),
    styled("[lang]{display:none}", "<p lang=en>"),
    styled("p[data-x^='a' i]{display:none}", "<p data-x=Abc>"),
    styled("aside:not(.y){display:none} aside{display:block}", "<aside>"),
    styled(":is(.x){display:none}"),
    styled("html body .x{display:none}"),
    styled(".x{&{display:none}}"),
    styled(".x{color:red;&.y{display:none}}", "<p class='x y'>"),
    styled(".x{@media screen{display:none}}"),
    styled(".x{display:none;&:hover{display:block}}"),
    styled("@supports (display:block){.x{display:none}}"),
    styled("@layer a{#x{display:block}} aside{display:none}", "<aside id=x>"),
    styled("<!-- .x{display:none} -->"),
    styled(".\\78 {display:none}"),
    styled(".x{display:none} y; .x{display:block}"),
    styled(".x{display:none} } .x{display:block}"),
    styled(".x{display:none} .x,:unknown{display:block}"),
    ...[
      ".x, :nth-child",
      ".1y, .x",
      ".x, p >",
      "> .x",
      ".x, ",
      ".x..y",
      "#1, .x",
      "[lang=1a], .x",
      "[=a], .x",
      ".x:not()",
      ".x:not(.a, :unknown)",
      ".x:has(:has(b)), .x",
      ".x:nth-child(2x), .x",
      ".x:nth-of-type(2 of p), .x",
      ".x::before.y, .x",
      ".x:first-child(), .x",
      ".x::unknown, .x",
      ".x:matches(.x), .x",
      ".x:-moz-any(.x), .x",
      "svg|p, .x",
      ".x > > b, .x",
      ".x a||b, .x",
      ".x!, .x",
      "[lang=a b], .x",
      "*.x.*",
    ].map((list) => styled(`.x{display:none} ${list}{display:block}`)),
    styled(".x{display:none} :nth-child{.x{display:block}}"),
    ...["(foo:bar)", "(display:x)", "not (display:grid)", "(display:grid) and (display:x)", "display:grid", "x(y)"].map(
      (condition) => styled(`.x{display:none} @supports ${condition}{.x{display:block}}`),
    ),
    styled("@supports selector(:has(a)) and (not (display:x)){.x{display:none}}"),
    styled("@layer a,b; @layer b{.x{display:none}} @layer a{p.x{display:block}}"),
    styled(".x/**/{display:none}.x/* */{dis/**/play:block}"),
    styled(".x{display:none} a{b:'} .x{display:block}'}"),
    `${styled(".x{display:none}")}<style media=print>.x{display:block}</style>`,
    `${styled(".x{display:none}")}<style media='(max-width:1px)'>.x{display:block}</style>`,
    `${styled(".x{display:none}")}<style type=text/x>.x{display:block}</style>`,
    `${styled(".x{display:none}")}<noscript><style>.x{display:block}</style></noscript>`,
  ])("%s", expectHidden);

  it.each([
    styled(".x{display:none}.y{display:block}", "<p class='y x'>"),
    styled(".x{display:none}", "<p class=x style='display:block!important'>"),
    styled(".x:hover,.y>.x,.x::before{display:none}"),
    styled("@media (max-width:600px){.x{display:none}}"),
    styled("@media print{.x{display:none}}"),
    styled("@supports not (display:grid){.x{display:none}}"),
    styled("@supports (display:x){.x{display:none}}"),
    styled(".x, :nth-child{display:none}"),
    styled(".x{display:none} .x, .y:is(:unknown){display:block}"),
    styled(".x{display:none} .x, ::-webkit-anything{display:block}"),
    styled(".x{display:none} @supports (visibility:hidden) or (foo:bar){.x{display:block}}"),
    styled(".y{.x{display:none}}"),
    styled(".x[lang]{display:none}"),
    styled(".x:not(.x){display:none}"),
  ])("and the text that it shows stays: %s", expectShown);
});

it("a rule under a condition whose property is not known only ever hides", () => {
  expectHidden(styled("@supports (foo:bar){.x{display:none}}"));
  expectHidden(styled(".x{display:none} @supports (object-fit:cover){.x{display:block}}"));
});

describe("an end tag closes the same elements as in browsers", () => {
  it.each([
    `<b hidden><p></b></p><i hidden>${HIDDEN}</i>`,
    `<a hidden>x<p><a hidden>${HIDDEN}</a></p></a>`,
    `<table hidden><tr><td>${HIDDEN}</table>`,
    `<span hidden><p></span>${HIDDEN}</p></span>`,
    `<span hidden><p></p></span><x-a hidden><div></x-a>${HIDDEN}</div></x-a>`,
    `<div hidden><svg><foreignObject></div>${HIDDEN}</foreignObject></svg></div>`,
    `<div hidden><svg><desc></div>${HIDDEN}</desc></svg></div>`,
    `<form hidden><div></form>${HIDDEN}</div></form>`,
    `<li hidden><section><li>${HIDDEN}</section></li>`,
    `<b><p hidden></b>${HIDDEN}</p>`,
    `<b hidden><p hidden></b>${HIDDEN}</p></b>`,
    `<table><tr><td hidden><table></td></table>${HIDDEN}</td></tr></table>`,
    `<p><svg><p hidden/>${HIDDEN}</p>`,
  ])("%s", (inner) => expectHidden(page(inner)));

  it("and text after the page's end tags stays in open elements", () => {
    expectHidden(`<p>Before</p><p>After</p><div hidden></body></html>${HIDDEN}`);
  });

  it.each([
    `<span hidden></span>${HIDDEN}`,
    `<div hidden><span></div>${HIDDEN}`,
    `<div hidden><svg></div>${HIDDEN}`,
    `<svg hidden/>${HIDDEN}`,
    `<svg hidden><p>${HIDDEN}</p>`,
    `<div hidden><svg><desc/></svg></div>${HIDDEN}`,
    `<font color=white><p>x</font>${HIDDEN}`,
    `<ul><li hidden>x<li>${HIDDEN}</ul>`,
    `<dl><dt hidden>x<dd>${HIDDEN}</dl>`,
    `<table><tr><td hidden>x<td>${HIDDEN}</table>`,
    `<table><tr hidden><td>x</table>${HIDDEN}`,
    `<div hidden><form></div>${HIDDEN}`,
    `<template><table></template>${HIDDEN}`,
    `<ul hidden><li><ul></li></ul></ul>${HIDDEN}`,
    `<button hidden>x<button>${HIDDEN}</button>`,
    `<table hidden><tr><td>x<p>y</table>${HIDDEN}`,
    `<p hidden><table><tr><td>x</table></p>${HIDDEN}`.replace("<p hidden>", "<p hidden></p>"),
  ])("and leaves the rest visible: %s", (inner) => expectShown(page(inner)));
});

describe("a selector with ancestors hides the elements that it selects, and no others", () => {
  const inside = (css: string, open: string, close: string) =>
    page(`${open}<p class=x>${HIDDEN}</p>${close}`, `<style>${css}</style>`);
  const within = (css: string) => inside(css, "<main><div class=a><section>", "</section></div></main>");
  it.each([
    within(".a .x{display:none}"),
    within("main .a p{display:none}"),
    within("section > p{display:none}"),
    within(".a > section > .x{opacity:0}"),
    within("main > .a p{display:none}"),
    within(".a{.x{display:none}}"),
    within(".a{& > section .x{display:none}}"),
    within(".x{display:none}.b .x{display:block}"),
    within(".x{display:none}.x{display:block}.a .x{display:none}"),
    within(":is(.b, .a) .x{display:none}"),
    within(".a .x:not(:hover){display:none}"),
    within("body > main .x{display:none}"),
    within(":root > body .x{display:none}"),
    within("@media screen and (min-width:1px){.a .x{display:none}}"),
    within("@media print, (min-width: 20em){.a .x{display:none}}"),
    inside("div div div .x{display:none}", "<div><div><div>", "</div></div></div>"),
    inside("b .x{display:none}", "<b>", "</b>"),
  ])("%s", expectHidden);

  it.each([
    within(".b .x{display:none}"),
    within(".a > .x{display:none}"),
    within(".x .a{display:none}"),
    within("section .a .x{display:none}"),
    within(".x{display:none}.a .x{display:block}"),
    within(".x:is(.b, .c){display:none}"),
    within("@media print and (min-width:1px){.a .x{display:none}}"),
    within("@media (min-width:2000px){.a .x{display:none}}"),
    page(`<div class=a><b></b></div><p class=x>${HIDDEN}</p>`, "<style>.a .x, .a > p{display:none}</style>"),
    page(`<div class=a><i><p class=x>${HIDDEN}</p></i></div>`, "<style>.a > p{display:none}</style>"),
  ])("%s", expectShown);
});

describe("a selector with siblings or places hides the elements that it selects, and no others", () => {
  const among = (css: string, inner: string) => page(`<main>${inner}</main>`, `<style>${css}</style>`);
  const second = (css: string) => among(css, `<p class=a>One</p><p class=x>${HIDDEN}</p>`);
  const third = (css: string) => among(css, `<p class=a>One</p><i>Two</i><p class=x>${HIDDEN}</p>`);
  const row = (css: string) =>
    among(css, `<table><caption>T</caption><tr><td>One<tr class=x><td>${HIDDEN}<tr><td>Three</table>`);
  it.each([
    second(".a + .x{display:none}"),
    second("p+p{display:none}"),
    third(".a ~ .x{display:none}"),
    third(".a + i + .x{display:none}"),
    third(".a ~ i ~ p{display:none}"),
    third("main > .a ~ p{display:none}"),
    third("i + p:not(.a){display:none}"),
    second("p:nth-child(2){display:none}"),
    second(".x:nth-child(even){display:none}"),
    third("main p:nth-child(2n+3){display:none}"),
    third("main p:nth-child(n + 2){display:none}"),
    third("main p:nth-of-type(2){display:none}"),
    third("main p:not(:first-child){display:none}"),
    third("main p:not(:first-of-type){display:none}"),
    third("main p:not(:nth-child(-n+2)){display:none}"),
    third("main p:not(:is(.a, .b)){display:none}"),
    third(".x:is(:nth-child(3)){display:none}"),
    second("main p:last-child{display:none}"),
    second("main p:nth-last-child(1):not(:has(b)){display:none}"),
    second("p:nth-child(1 of .x){display:none}"),
    second("main:has(> .a) .x{display:none}"),
    second(".x:last-of-type:nth-last-of-type(odd){display:none}"),
    row("tr:nth-child(even){display:none}"),
    row("tr + tr:not(tr + tr + tr), tr:nth-child(2){display:none}"),
    among(".tab-pane ~ .tab-pane{display:none}", `<div class=tab-pane>One</div><div class=tab-pane>${HIDDEN}</div>`),
    among("p + p b{display:none}", `<p>One<p>Two <b>${HIDDEN}</b>`),
    among("ul > li:nth-child(n+3){display:none}", `<ul><li>One<li>Two<li>${HIDDEN}</ul>`),
    `<title>t</title><style>p:first-child{display:none}</style><p>${HIDDEN}<p>Before<p>After`,
  ])("%s", expectHidden);

  it.each([
    second(".x + .a{display:none}"),
    third(".a + .x{display:none}"),
    third(".x ~ .a{display:none}"),
    third("p:nth-child(2), p:nth-of-type(3), p:nth-child(even){display:none}"),
    third(".x:first-child{display:none}"),
    third("p:not(:nth-child(3)){display:none}"),
    row("tr:nth-child(odd){display:none}"),
    second("li + li{display:none}"),
    second("p + p{margin-left:1em}p:nth-child(even){color:#111;background:#eee}"),
    second("p:not(:last-child):has(b), p:only-child, p:nth-last-child(3){display:none}"),
    second("p:nth-child(2 of .x){display:none}"),
    among("b + b{display:none}", `<p><b>One</b></p><p><b>${HIDDEN}</b></p>`),
    among(".a:hover + .x{display:none}", `<p class=a>One</p><p class=x>${HIDDEN}</p>`),
    `<title>t</title><style>p:nth-child(2){display:none}</style><p>${HIDDEN}`,
  ])("%s", expectShown);

  it("a part of a table ends the hidden one before it", () => {
    expectShown(page(`<table><thead hidden><tr><th>One<tbody><tr><td>${HIDDEN}</table>`));
  });
});

describe("a custom property hides by its value", () => {
  it.each([
    styled(":root{--d:none}.x{display:var(--d)}"),
    styled("*{--D:none}.x{--d:block;display:var( --D )}"),
    styled(".x{--o:0;opacity:var(--o)}"),
    styled(".x{display:var(--unknown, none)}"),
    styled(":root{--a:var(--b);--b:none}.x{display:var(--a)}"),
    styled(":root{--d:block!important;--d:none}.x{display:none}"),
    styled(":root{--c:#fff}.x{color:var(--c)}"),
    styled(".x{display:none;opacity:var(--o)}"),
    inline("--d:none;display:var(--d)"),
    page(`<div style="--d:none"><div><p style="display:var(--d)">${HIDDEN}</p></div></div>`),
    page(
      `<div class=a><p class=x>${HIDDEN}</p></div>`,
      "<style>:root{--d:block}.a{--d:none}.x{display:var(--d)}</style>",
    ),
  ])("%s", expectHidden);

  it.each([
    styled(":root{--d:none}.a{--d:none}.x{--d:block;display:var(--d)}"),
    styled(".x{display:var(--unknown)}"),
    styled(".x{display:var(--a);--a:var(--b);--b:var(--a)}"),
    styled(".y{--d:none}.x{display:var(--d,block)}"),
    styled(":root{--c:#333}@media (prefers-color-scheme:dark){:root{--c:#fff}}.x{color:var(--c)}"),
    page(`<div style="--d:none"></div><p style="display:var(--d)">${HIDDEN}</p>`),
  ])("%s", expectShown);
});

describe("a shadow root displays its own content, and the host's content only in its slots", () => {
  const root = (inner: string) => `<template shadowrootmode=open>${inner}</template>`;
  it.each([
    page(`<div>${root("")}${HIDDEN}</div>`),
    page(`<div>${HIDDEN}${root("<p>Card</p>")}</div>`),
    page(`<my-card><p>${HIDDEN}</p>${root("<slot name=a></slot>")}</my-card>`),
    page(`<my-card>${root("<slot></slot>")}<p slot=b>${HIDDEN}</p></my-card>`),
    page(`<my-card>${root("<div hidden><slot></slot></div>")}${HIDDEN}</my-card>`),
    page(`<my-card>${root("<p style='opacity:0'><slot></slot></p>")}<b>${HIDDEN}</b></my-card>`),
    page(`<my-card>${root(`<slot>${HIDDEN}</slot>`)}Words</my-card>`),
    page(`<my-card>${root(`<slot>${HIDDEN}</slot>`)} </my-card>`),
    page(`<my-card>${root("<p hidden><slot></slot></p><slot></slot>")}<b>${HIDDEN}</b></my-card>`),
    page(`<my-card>${root(`<style>b{display:none}</style><b>${HIDDEN}</b>`)}</my-card>`),
    page(`<style>b{display:none}</style><my-card>${root("<slot></slot>")}<b>${HIDDEN}</b></my-card>`),
    page(`<my-card>${root(`<p hidden>${HIDDEN}</p>`)}</my-card>`),
    page(`<div>${root("<p>Card</p>")}<template shadowrootmode=open>${HIDDEN}</template></div>`),
    page(`<a href=/>${root(HIDDEN)}</a>`),
    page(`<div><template shadowrootmode=none>${HIDDEN}</template></div>`),
    page(`<template><div>${root(HIDDEN)}</div></template>`),
    page(`<div>${root("<section><template shadowrootmode=closed></template><slot></slot></section>")}${HIDDEN}</div>`),
  ])("%s", expectHidden);

  it.each([
    page(`<div>${root(`<p>${HIDDEN}</p>`)}</div>`),
    page(`<div>Words<template shadowrootmode=CLOSED>${HIDDEN}</template></div>`),
    page(`<my-card>${HIDDEN}${root("<h2>Card</h2><slot></slot>")}</my-card>`),
    page(`<my-card>${root("<slot name=b></slot>")}<p slot=b>${HIDDEN}</p></my-card>`),
    page(`<my-card>${root(`<slot name=c>${HIDDEN}</slot><slot></slot>`)}Words</my-card>`),
    page(
      `<my-card>${root("<my-row><template shadowrootmode=open><slot></slot></template><slot></slot></my-row>")}${HIDDEN}</my-card>`,
    ),
    page(`<div>${root("")}</div><p>${HIDDEN}</p>`),
    page(`<my-card>${root(`<slot>${HIDDEN}</slot>`)}<!-- x --></my-card>`),
    page(`<my-card>${root("<style>b{display:none}</style><slot></slot>")}<b>${HIDDEN}</b></my-card>`),
    page(`<style>b{display:none}</style><my-card>${root(`<b>${HIDDEN}</b>`)}</my-card>`),
  ])("%s", expectShown);
});

describe("text beyond a limit is hidden", () => {
  const attributes = Array.from({ length: 256 }, (_, at) => `a${at}`).join(" ");
  const classes = Array.from({ length: 300 }, (_, at) => `c${at}`).join(" ");
  it.each([
    ["hidden, after 256 attributes", page(`<p ${attributes} hidden>${HIDDEN}</p>`)],
    ["the last of 300 classes", styled(".c299{display:none}", `<p class="${classes}">`)],
    ["a rule after more than a megabyte of others", styled(`${".y{color:red}".repeat(100_000)}.x{display:none}`)],
    ["400 spaces before !important", inline(`display:none${" ".repeat(150)}!important;display:block`)],
  ])("%s", (_name, html) => expectHidden(html));
});

describe("text that an element or attribute hides", () => {
  it.each([
    `<div popover>${HIDDEN}</div>`,
    `<progress>${HIDDEN}</progress>`,
    `<meter>${HIDDEN}</meter>`,
    `<select><option label=x>${HIDDEN}</option></select>`,
    `<math><semantics><mi>x</mi><annotation>${HIDDEN}</annotation></semantics></math>`,
    `<svg>${HIDDEN}</svg>`,
    `<svg><g>${HIDDEN}</g></svg>`,
    `<svg><title>${HIDDEN}</title></svg>`,
    `<svg><symbol><text>${HIDDEN}</text></symbol></svg>`,
    `<svg><text display=none>${HIDDEN}</text></svg>`,
    `<svg><text fill=none>${HIDDEN}</text></svg>`,
    `<svg><g opacity=0><text>${HIDDEN}</text></g></svg>`,
  ])("%s", (inner) => expectHidden(page(inner)));

  it.each([`<body text=#fff>${HIDDEN}</body>`])("%s", (html) => expect(visibleText(html).text).toBe(""));

  it.each([
    `<div popover style="display:block">${HIDDEN}</div>`,
    `<select><option>${HIDDEN}</option></select>`,
    `<svg fill=none><text fill=#000>${HIDDEN}</text></svg>`,
    `<svg><foreignObject><p>${HIDDEN}</p></foreignObject></svg>`,
    // Such pages become visible once their scripts or style sheets have loaded.
    `<body style="opacity:0">${HIDDEN}`,
    `<style>html{display:none}</style><body>${HIDDEN}`,
  ])("is not text that they show: %s", expectShown);
});

describe("text that a property hides", () => {
  it.each([
    "position:absolute;inset:-9999px auto auto -9999px",
    "margin:0 0 0 -9999px",
    "translate:-9999px",
    "position:absolute;left:calc(0px - 9999px)",
    "position:absolute;left:calc(-100 * 100px)",
    "color:hsl(0 0% 100%)",
    "color:hsla(0,0%,0%,0)",
    "color:hwb(0 100% 0%)",
    "position:absolute;inset-inline-start:-9999px",
    "position:absolute;inset-block:-9999px auto",
    "overflow:hidden;block-size:0",
    "overflow:hidden;max-inline-size:0",
    "margin-inline-start:-9999px",
    "color:color-mix(in srgb, white, white)",
    "font-size:calc(0px)",
    "opacity:calc(0)",
    "-webkit-mask:linear-gradient(transparent,transparent)",
    "zoom:0.01",
    "transform:matrix(0,0,0,0,0,0)",
    "transform:matrix(1,0,0,1,-9999,0)",
    "transform:scale(1,0)",
    "clip-path:polygon(0 0,0 0,0 0)",
    "clip-path:inset(0 100% 0 0)",
    "overflow:hidden;max-height:calc(0px)",
  ])("%s", (css) => expectHidden(inline(css)));

  it.each([
    "color:hsl(0 0% 20%)",
    "color:hwb(0 20% 60%)",
    "inset-inline-start:-9999px",
    "block-size:0",
    "background:#fff url(x.png);color:#fff",
    "color:chartreuse;background:#fff",
    "font-size:calc(1rem + 1vw)",
    "zoom:1",
    "margin:0 -15px",
    "translate:-50% -50%",
    "transform:matrix(1,0,0,1,0,0)",
    "clip-path:polygon(0 0,100% 0,100% 100%)",
    "clip-path:inset(0 10% 0 0)",
    "mask:linear-gradient(black,transparent)",
    "color:var(--text)",
    "display:var(--display)",
  ])("is not text that it shows: %s", (css) => expectShown(inline(css)));
});
