import type { Box } from "./pdf-grid.ts";
import { createLetters } from "./pdf-letters.ts";
import { createPaint, type Group, type Paint } from "./pdf-paint.ts";
import { boxOf, type Font, type Glyph, PLAIN_FONT } from "./pdf-state.ts";

/** What a page draws, as the parser gives it: the numbers of operators, and their arguments. */
export interface Drawing {
  readonly fnArray: readonly number[];
  readonly argsArray: readonly (readonly unknown[] | null | undefined)[];
}

export interface PageLook {
  readonly view: Box;
  /** The length of a unit, in points. */
  readonly user_unit: number;
  readonly fontOf: (name: string) => Font | null;
  /** Whether a layer is switched on. */
  readonly isLayerShown: (layer: unknown) => boolean;
}

export interface PageLetters {
  readonly glyphs: readonly Glyph[];
  /** Whether invisible text over images stays, because it is the text of a scan. */
  readonly is_scan: boolean;
}

/** The numbers of the parser's operators, by their names. */
type Operators = Readonly<Record<string, number>>;
type Act = (args: readonly unknown[]) => void;

/** Reads what a page draws, and which of its letters people do not see. */
export function readPage(drawing: Drawing, operators: Operators, look: PageLook): PageLetters {
  const paint = createPaint(look);
  const letters = createLetters(paint, look);
  const named = { ...stateActs(paint, look), ...paintActs(paint, operators), ...textActs(paint, letters) };
  const acts = new Map(Object.entries(named).map(([name, act]) => [operators[name], act]));
  for (const [at, operator] of drawing.fnArray.entries()) acts.get(operator)?.(drawing.argsArray[at] ?? []);
  paint.endWaiting();
  const { glyphs } = letters;
  for (const glyph of glyphs) {
    const { points, moment, hidden_by } = glyph;
    if (hidden_by === null && points.every(([x, y]) => paint.grid.isCovered(x, y, moment))) glyph.hidden_by = "covered";
  }
  return { glyphs, is_scan: showScan(glyphs, (x, y) => paint.grid.isPictured(x, y)) };
}

/**
 * Invisible text over images is what people read there if most of the page's text is like this: a scan with the text
 * that a program has recognised in it.
 */
function showScan(glyphs: readonly Glyph[], isPictured: (x: number, y: number) => boolean): boolean {
  const scanned = glyphs.filter(
    ({ hidden_by, points }) =>
      (hidden_by === "invisible" || hidden_by === "transparent") && points.some(([x, y]) => isPictured(x, y)),
  );
  const seen = glyphs.filter(({ hidden_by }) => hidden_by === null).length;
  if (scanned.length <= seen) return false;
  for (const glyph of scanned) glyph.hidden_by = null;
  return true;
}

const number = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);

/** `#rrggbb`; null: another kind of colour. */
function colour(value: unknown): number | null {
  return typeof value === "string" && /^#[0-9a-f]{6}$/i.test(value) ? Number.parseInt(value.slice(1), 16) : null;
}

function stateActs(paint: Paint, { fontOf }: PageLook): Record<string, Act> {
  const { set } = paint;
  const setFont = (name: unknown, size: unknown) =>
    set({ font: fontOf(String(name)) ?? PLAIN_FONT, font_size: number(size) });
  const setEntry = (key: unknown, value: unknown) => {
    if (key === "ca") set({ fill_alpha: number(value) });
    else if (key === "CA") set({ stroke_alpha: number(value) });
    else if (key === "LW") set({ line_width: number(value) });
    else if (key === "BM") set({ is_blended: value !== "source-over" });
    else if (key === "SMask") set({ is_masked: value !== false });
    else if (key === "Font" && Array.isArray(value)) setFont(value[0], value[1]);
  };
  return {
    save: paint.save,
    restore: paint.restore,
    transform: (args) => paint.transform(args),
    setLineWidth: ([width]) => set({ line_width: number(width) }),
    setFont: ([name, size]) => setFont(name, size),
    setGState: ([entries]) => {
      for (const [key, value] of Array.isArray(entries) ? entries : []) setEntry(key, value);
    },
    setFillRGBColor: ([value]) => set({ fill: colour(value) }),
    setStrokeRGBColor: ([value]) => set({ stroke: colour(value) }),
    setFillColorN: () => set({ fill: null }),
    setStrokeColorN: () => set({ stroke: null }),
    setFillTransparent: () => set({ fill: "none" }),
    setStrokeTransparent: () => set({ stroke: "none" }),
  };
}

const FILLS = "fill eoFill fillStroke eoFillStroke closeFillStroke closeEOFillStroke rawFillPath".split(" ");
const STROKES = "stroke closeStroke fillStroke eoFillStroke closeFillStroke closeEOFillStroke".split(" ");

function paintActs(paint: Paint, operators: Operators): Record<string, Act> {
  const fills = new Set<unknown>(FILLS.map((name) => operators[name]));
  const strokes = new Set<unknown>(STROKES.map((name) => operators[name]));
  const everything: Act = () => paint.blur(paint.state().clip, true);
  return {
    clip: paint.clipNext,
    eoClip: paint.clipNext,
    constructPath: ([operator, data, bounds]) =>
      paint.path(
        { fills: fills.has(operator), strokes: strokes.has(operator) },
        Array.isArray(data) ? data[0] : null,
        boxOf(bounds),
      ),
    shadingFill: everything,
    paintImageXObject: paint.image,
    paintInlineImageXObject: paint.image,
    paintImageMaskXObject: paint.image,
    paintSolidColorImageMask: paint.image,
    paintFormXObjectBegin: ([matrix, box]) => {
      paint.save();
      if (matrix !== null) paint.transform(matrix);
      paint.clipTo(boxOf(box));
    },
    paintFormXObjectEnd: paint.restore,
    beginGroup: ([group]) => paint.beginGroup((group ?? {}) as Group),
    endGroup: paint.endGroup,
    beginMarkedContent: () => paint.beginContent(null, null),
    beginMarkedContentProps: ([tag, layer]) => paint.beginContent(tag, layer),
    endMarkedContent: paint.endContent,
  };
}

function textActs(paint: Paint, letters: ReturnType<typeof createLetters>): Record<string, Act> {
  const { set } = paint;
  return {
    beginText: letters.begin,
    setCharSpacing: ([value]) => set({ char_spacing: number(value) }),
    setWordSpacing: ([value]) => set({ word_spacing: number(value) }),
    setHScale: ([value]) => set({ h_scale: number(value) / 100 }),
    setLeading: ([value]) => set({ leading: -number(value) }),
    setTextRenderingMode: ([value]) => set({ mode: number(value) }),
    setTextRise: ([value]) => set({ rise: number(value) }),
    moveText: ([x, y]) => letters.move(number(x), number(y)),
    setLeadingMoveText: ([x, y]) => {
      set({ leading: number(y) });
      letters.move(number(x), number(y));
    },
    setTextMatrix: (args) => letters.place(args.length === 1 ? args[0] : args),
    nextLine: letters.nextLine,
    showText: ([shown]) => letters.show(shown),
  };
}
