/** A page whose words are w0x, w1x and so on. The same seed gives the same page. */
export interface RandomPage {
  readonly html: string;
  readonly words: number;
  /** It has a condition with a property that is not known. Such rules only ever hide. */
  readonly is_uncertain: boolean;
}

const CLASSES = ["a", "b", "c", "d"];
const BLOCKS = ["div", "section", "p", "ul", "table", "span", "h2", "article"];
const PLACES = (
  ":first-child :first-of-type :nth-child(2) :nth-child(odd) :nth-child(-n+2) :nth-of-type(2) :nth-of-type(3n-1) " +
  ":nth-child(n+3) :nth-of-type(even) :last-child :only-child :last-of-type :only-of-type :nth-last-child(2) " +
  ":nth-last-child(2n+1) :nth-last-of-type(-n+2) :empty"
)
  .split(" ")
  .concat(":nth-child( 2n + 2 )", ":nth-child(2 of .a)", ":nth-last-child(odd of p, .b)");
const STATES = [":hover", ":has(b)", ":has(> .a)", ":has(+ .b)", ":has(~ p)", ":not(:has(i))", ":where(.a, p)"].concat(
  ":is()",
  ":is(.a, :unknown)",
  ":not(:focus)",
  ":lang(de):lang(fr)",
  "::before",
);
/** Browsers drop a rule with one of these in its list. */
const INVALID = (
  ":nth-child|.1x|p>|>p|.a,,|#1|[a=1x]|[=b]|.a..b|:unknown|::unknown|:not()|:has()|:nth-child(2x)|:not(:unknown)|" +
  ":has(:has(p))|:has(:unknown)|.a::before.b|:nth-child(2n+)|.a:not(::before)|ns\\|p|:is|.a!|$|[a~b]|[a='x\"]|" +
  ":nth-of-type(2 of p)|:first-child()|:hover()|.a:not(.b .c .-1)|p * * >|:matches(.a)|:-moz-any(.a)|::-moz-x|" +
  "p > > b|.a ~|[a=b c]|[a='b' x]|:nth-child(2 n)|:nth-child(+ n)|.a:not(.b|*.a.|:lang()|@p|:has(b,)|p.a .|:not(p,)"
)
  .split(/(?<!\\)\|/)
  .map((each) => each.replace("\\", ""));
const SUPPORTS = (
  "(display:grid)|(foo:bar)|(display:foo)|not (display:grid)|not (foo:bar)|(display:grid) and (position:sticky)|" +
  "(display:foo) or (display:block)|(display:grid) and (foo:bar)|not ((display:grid) and (display:foo))|" +
  "selector(:has(a))|selector(:unknown)|selector(p > b)|(--x:y)|(visibility:hidden) or (foo:bar)|(-moz-display:none)|" +
  "(position:hidden)|display:grid|(display:grid) and (display:flex) or (display:block)|not(display:grid)|unknown(x)"
).split("|");
const UNCERTAIN = /foo:bar/;
const DECLARATIONS = [
  ...["display:none", "display:none", "display:none", "display:block", "visibility:hidden", "visibility:visible"],
  ...["display:inline-block", "visibility:inherit", "opacity:0", "opacity:1", "opacity:0%"],
];
/** Browsers drop these declarations. */
const DROPPED = [
  ...[
    "display:blok",
    "display:none none",
    "display:12px",
    "visibility:none",
    "visibility:hidden visible",
    "displai:none",
  ],
  ...[
    "display:block flex grid",
    "display:none!importent",
    "display: ",
    "dis play:none",
    "visibility:'hidden'",
    "display:no/**/ne",
  ],
  ...["opacity:1.1.1", "opacity:1px", "opacity:full", "opacity:calc(1px)", "opacity:1 1"],
];
const MISNESTED = [
  "<ul hidden><li><ul></li></ul>#</ul>",
  "<b hidden><p></b>#</p>",
  "<div hidden><p>#</div>#",
  "<p hidden><div>#</p>#</div>",
  "<table hidden><tr><td>#</table>#",
  "<table><p>#<tr><td>#</p></table>#",
  "<table><b hidden>#<tr><td>#</b></table>#",
  "<a hidden>#<p><a>#</a></p>#</a>",
  "<i class=a><b hidden>#</i>#</b>#",
  "<span hidden><h2>#</span>#</h2>#",
  "<form hidden><div></form>#</div>#",
  "<button hidden>#<button>#</button>#",
  "<h2 hidden>#<h3>#</h2>#</h3>#",
  "<dl><dt hidden>#<dd>#<dt>#</dl>",
  "<nobr hidden>#<nobr>#</nobr>#",
  "<div hidden><svg><p>#</svg></div>#",
  "<svg hidden><desc><div>#</svg>#</div>",
  "<li hidden>#<li>#",
  "<b hidden>#<b hidden>#<div>#</b>#</b>#</div>#",
  "<p><b hidden><i>#<p>#</i>#</b>#",
  "<table><tr hidden>#<td>#<tr>#<td>#</table>",
  "<div hidden></p>#</div>#",
  "<section hidden></br>#</section>#",
  "<x-y hidden><p></x-y>#</p>#",
  "<caption hidden>#<td>#",
];

const IMPORTANT = "!important";

/** Numbers from 0 to `below`, the same for the same seed (mulberry32). */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

/** Pages with rules, invalid rules, `@supports`, layers, rules in rules and misnested elements. */
export function randomPage(seed: number): RandomPage {
  const below = randomOf(seed);
  const one = <Item>(items: readonly Item[]): Item => items[below(items.length)] as Item;
  const chance = (in_number: number) => below(in_number) === 0;
  let words = 0;
  const word = () => `w${words++}x`;
  const attributes = () => {
    const classes = chance(2) ? "" : ` class="${one(CLASSES)}${chance(3) ? ` ${one(CLASSES)}` : ""}"`;
    const style = chance(12) ? ` style="${one(DECLARATIONS)};${one(DROPPED)}"` : "";
    return classes + style + (chance(14) ? " hidden" : "");
  };

  const element = (depth: number): string => {
    if (chance(8))
      return one(MISNESTED)
        .replaceAll("#", word)
        .replace(/<(\w+)/, (open) => open + attributes());
    const name = depth > 2 ? "span" : one(BLOCKS);
    const open = `<${name}${attributes()}>`;
    const items = 1 + below(4);
    const repeat = (make: () => string) => Array.from({ length: items }, make).join("");
    const inner = () => (chance(3) && name !== "p" && name !== "h2" ? repeat(() => element(depth + 1)) : word());
    if (name === "ul") return `${open}${repeat(() => `<li${attributes()}>${inner()}`)}</ul>`;
    if (name === "table") {
      const caption = chance(3) ? `<caption>${word()}</caption>` : "";
      const head = chance(3) ? `<thead><tr><th>${word()}<tbody>` : "";
      return `${open}${caption}${head}${repeat(() => `<tr${attributes()}><td${attributes()}>${word()}<td>${word()}`)}</table>`;
    }
    if (name === "p" || name === "span" || name === "h2") {
      return `${open}${word()}${chance(3) ? `<br><b${attributes()}>${word()}</b><i>${word()}</i>` : ""}</${name}>`;
    }
    return `${open}${chance(2) ? word() : ""}${repeat(() => element(depth + 1))}</${name}>`;
  };

  const compound = (): string => {
    const name = chance(2) ? one(["*", "p", "li", "tr", "td", "div", "span", "b", "section"]) : "";
    const place = chance(3) ? one(PLACES) : chance(6) ? one(STATES) : "";
    const excluded = chance(6) ? `:not(${one([...PLACES, ".a", ".b", "span", ":is(.c, p)", ".a .b"])})` : "";
    const own = chance(2) || name + place + excluded === "" ? `.${one(CLASSES)}` : "";
    return `${name}${chance(9) ? "/**/" : ""}${own}${excluded}${place}`;
  };
  const selector = () =>
    Array.from({ length: 1 + below(3) }, compound).reduce(
      (all, each) => `${all}${one([" ", " > ", " + ", "~", "+", " /**/ "])}${each}`,
    );
  const list = () => {
    const all = Array.from({ length: chance(4) ? 2 : 1 }, selector);
    if (chance(5)) all.splice(below(all.length + 1), 0, one(INVALID));
    return all.join(", ");
  };
  const declarations = () =>
    (chance(4) ? `${one(DROPPED)};` : "") +
    one(DECLARATIONS) +
    (chance(9) ? IMPORTANT : "") +
    (chance(4) ? `;${one(DROPPED)}` : "");
  const rule = (depth = 0): string => {
    if (chance(6)) return `@supports ${one(SUPPORTS)}{${rule(depth + 1)}}`;
    // Important declarations in a layer would hide the root.
    if (chance(12)) return `@layer ${one(["one", "two"])}{${rule(depth + 1).replaceAll(IMPORTANT, "")}}`;
    if (chance(12))
      return `@media ${one(["screen", "print", "all and (min-width:1px)", "not print"])}{${rule(depth + 1)}}`;
    const nested =
      depth < 2 && chance(8) ? `${one(["&", "& > ", "", "+ ", "&:hover, & "])}${selector()}{${declarations()}}` : "";
    return `${list()}{${declarations()};${nested}}`;
  };

  // A page that hides its root counts as visible (src/safety/README.md).
  const shown =
    "html:not(#z),head ~ body:not(#z){display:block!important;visibility:visible!important;opacity:1!important}";
  const rules = Array.from({ length: 2 + below(6) }, () => rule()).join("\n");
  const sheet = `<style>${rules}</style><style>${shown}</style>`;
  const content = Array.from({ length: 2 + below(4) }, () => element(0)).join("\n");
  const html = one([
    `<!doctype html><html><head><title>t</title>${sheet}</head><body>${content}</body></html>`,
    `<!doctype html><title>t</title>${sheet}${content}`,
    `<!doctype html><body>${sheet}${content}`,
    `<title>t</title>${sheet}${content}`,
  ]);
  return { html, words, is_uncertain: UNCERTAIN.test(html) };
}
