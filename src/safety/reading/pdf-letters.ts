import type { Box } from "./pdf-grid.ts";
import { type Paint, SEEN_ALPHA } from "./pdf-paint.ts";
import { combined, type Glyph, type Matrix, matrixOf, type State, UNCHANGED } from "./pdf-state.ts";

/** A letter as the parser gives it, or a number: how far the next one moves back, in thousandths of the size. */
type Shown =
  | number
  | {
      readonly unicode: string;
      readonly width: number;
      readonly isSpace: boolean;
      readonly vmetric?: readonly number[];
    };

/** Text lower than this, in points, is not meant for people. */
export const MIN_HEIGHT = 2;
/** Text narrower than this, in points for the height of a letter, is a line. */
const MIN_WIDTH = 0.5;
/** Colours closer than this (largest channel difference, of 255) look equal. */
const SAME_COLOUR = 12;
/** Letters further apart than this, in sizes of the font, are of different words. */
const WORD_GAP = 0.15;
/** Letters of another line are at least this far away. */
const LINE_GAP = 0.5;
/** The points of a letter that are looked at, above its base line, in sizes of the font. */
const LOW = 0.15;
const HIGH = 0.5;
/** How far the base line of vertical text is below the place of its letters, in sizes of the font. */
const DROP = 0.88;
/** Characters that the layout writes itself, or that nobody sees. */
const UNWRITTEN = /^[\s\p{Cf}]*$/u;
const MARK = /^\p{Mn}$/u;
const MODE_INVISIBLE = 3;
const MODE_CLIP = 7;

/** The letters of a page, in its order. */
export function createLetters(paint: Paint, { view, user_unit }: { view: Box; user_unit: number }) {
  const glyphs: Glyph[] = [];
  let matrix: Matrix = UNCHANGED;
  let line: Matrix = UNCHANGED;
  let has_space = false;
  /** Where the last letter ended, and in which size. */
  let end: { x: number; y: number; size: number } | null = null;

  function move(x: number, y: number): void {
    line = combined(line, [1, 0, 0, 1, x, y]);
    matrix = line;
  }

  /** What the layout puts before a letter at this place. */
  function gapBefore(x: number, y: number): Glyph["before"] {
    if (end === null) return "";
    const [dx, dy] = [Math.abs(x - end.x), Math.abs(y - end.y)];
    if (Math.max(dx, dy) > WORD_GAP * end.size && Math.min(dx, dy) > LINE_GAP * end.size) return "\n";
    return has_space || dx + dy > WORD_GAP * end.size ? " " : "";
  }

  function show(shown: Shown): void {
    const state = paint.state();
    const { is_vertical, unit } = state.font;
    if (typeof shown === "number") {
      advance(state, ((is_vertical ? shown : -shown) / 1000) * state.font_size);
      return;
    }
    const { unicode, width, isSpace, vmetric } = shown;
    const own = (is_vertical ? -(vmetric?.[0] ?? -width) : width) * unit * state.font_size;
    const is_mark = MARK.test(unicode);
    if (UNWRITTEN.test(unicode)) has_space ||= /\s/.test(unicode);
    else add(state, unicode, is_mark ? 0 : own);
    advance(state, (is_mark ? 0 : own) + state.char_spacing + (isSpace ? state.word_spacing : 0));
  }

  function advance(state: State, distance: number): void {
    matrix = combined(
      matrix,
      state.font.is_vertical ? [1, 0, 0, 1, 0, -distance] : [1, 0, 0, 1, distance * state.h_scale, 0],
    );
  }

  /** @param advanced how far the letter moves the next one */
  function add(state: State, text: string, advanced: number): void {
    const { is_vertical } = state.font;
    const [width, height] = is_vertical ? [0, advanced] : [advanced, 0];
    const scale: Matrix = [state.font_size * state.h_scale, 0, 0, state.font_size, 0, state.rise];
    const at = combined(state.matrix, combined(matrix, scale));
    const sizes = (length: number) => (state.font_size === 0 ? 0 : length / state.font_size);
    const base = is_vertical ? -DROP : 0;
    const point = (x: number, y: number) => [at[0] * x + at[2] * y + at[4], at[1] * x + at[3] * y + at[5]] as const;
    const points = [LOW, HIGH].map((above) => point(sizes(width) / 2, base + above));
    const [x, y] = point(0, 0);
    const glyph: Glyph = {
      text,
      before: gapBefore(x, y),
      points,
      moment: paint.grid.now(),
      hidden_by: unseenBy(state, at, points),
      is_left_out: !MARK.test(text) && (x + width < view[0] || x > view[2] || y - height < view[1] || y > view[3]),
    };
    state.is_partial ||= state.mode > MODE_INVISIBLE;
    if (glyph.hidden_by === "clipped" && state.mode === MODE_CLIP) state.outlines = { glyph, before: state.outlines };
    glyphs.push(glyph);
    const [end_x, end_y] = point(sizes(width), -sizes(height));
    end = { x: end_x, y: end_y, size: Math.hypot(at[2], at[3]) };
    has_space = false;
  }

  /** Why people do not see a letter when it is drawn. Null: they see it, unless something covers it later. */
  function unseenBy(state: State, at: Matrix, points: Glyph["points"]): string | null {
    if (paint.isLayerOff()) return "layer-off";
    if (state.mode === MODE_INVISIBLE) return "invisible";
    if (points.every((each) => !isIn(view, each))) return "off-page";
    if (state.mode === MODE_CLIP || points.every((each) => !isIn(state.clip, each))) return "clipped";
    const colours = coloursOf(state);
    if (colours.length === 0) return "transparent";
    if (state.font.is_drawn) return null;
    if (Math.hypot(at[2], at[3]) * user_unit < MIN_HEIGHT || Math.hypot(at[0], at[1]) * user_unit < MIN_WIDTH)
      return "tiny-font";
    const is_same = points.every(([x, y]) => {
      const below = paint.grid.colourAt(x, y);
      return colours.every((colour) => colour !== null && below >= 0 && looksEqual(colour, below));
    });
    return is_same ? "same-colour" : null;
  }

  return {
    glyphs,
    begin(): void {
      matrix = UNCHANGED;
      line = UNCHANGED;
    },
    move,
    nextLine: () => move(0, paint.state().leading),
    place(to: unknown): void {
      line = matrixOf(to) ?? line;
      matrix = line;
    },
    show(letters: unknown): void {
      if (!Array.isArray(letters) || paint.isMask()) return;
      paint.painted();
      for (const each of letters as Shown[]) show(each);
    },
  };
}

/** The colours in which letters are drawn, with enough ink to be seen. */
function coloursOf(state: State): (number | null)[] {
  const kind = state.mode % 4;
  const inks = [
    ...(kind === 1 ? [] : [[state.fill, state.fill_alpha] as const]),
    ...(kind === 0 ? [] : [[state.stroke, state.stroke_alpha] as const]),
  ];
  return inks.flatMap(([colour, alpha]) =>
    colour === "none" || alpha * state.group_alpha <= SEEN_ALPHA ? [] : [colour],
  );
}

const isIn = ([left, bottom, right, top]: Box, [x, y]: readonly [number, number]) =>
  x >= left && x <= right && y >= bottom && y <= top;

function looksEqual(one: number, other: number): boolean {
  return [16, 8, 0].every((shift) => Math.abs(((one >> shift) & 255) - ((other >> shift) & 255)) <= SAME_COLOUR);
}
