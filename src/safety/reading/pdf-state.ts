import type { Box } from "./pdf-grid.ts";

/** A transformation of a PDF: `[a, b, c, d, e, f]`. */
export type Matrix = readonly [number, number, number, number, number, number];

export const UNCHANGED: Matrix = [1, 0, 0, 1, 0, 0];

/** Of a font, what the place of its letters depends on. */
export interface Font {
  readonly is_vertical: boolean;
  /** Its letters are drawings with their own colours and sizes. */
  readonly is_drawn: boolean;
  /** The width of a unit, in sizes of the font. */
  readonly unit: number;
}

/** A piece of text in the order of the page, and why people do not see it. */
export interface Glyph {
  readonly text: string;
  /** What the layout puts before it. */
  readonly before: "" | " " | "\n";
  /** Its middle, low and high. */
  readonly points: readonly (readonly [x: number, y: number])[];
  /** The number of paints before it. */
  readonly moment: number;
  hidden_by: string | null;
  /** Whether the parser's own text leaves it out, as it does with text beside the page. */
  readonly is_left_out: boolean;
}

export interface Outlines {
  readonly glyph: Glyph;
  readonly before: Outlines | null;
}

/** The graphics state, as far as it decides what people see. `save` copies it. */
export interface State {
  matrix: Matrix;
  clip: Box;
  /** Null: a pattern, or a colour that is not known. "none": no colour. */
  fill: number | "none" | null;
  stroke: number | "none" | null;
  fill_alpha: number;
  stroke_alpha: number;
  /** The alpha of the groups around it. */
  group_alpha: number;
  /** Whether what is painted mixes with what is below. */
  is_blended: boolean;
  is_masked: boolean;
  /** Whether paint may leave out parts of `clip`, or mix with what is below, because of its clipping shape or group. */
  is_partial: boolean;
  line_width: number;
  mode: number;
  font: Font;
  font_size: number;
  h_scale: number;
  char_spacing: number;
  word_spacing: number;
  leading: number;
  rise: number;
  /** Letters that clip, the last one first: people see them if something is painted afterwards. */
  outlines: Outlines | null;
  /** A transformation after which nothing was painted: images are left out, so one was there. */
  is_waiting: boolean;
}

export const PLAIN_FONT: Font = { is_vertical: false, is_drawn: false, unit: 0.001 };

/** The state at the beginning of a page. */
export function firstState(view: Box): State {
  return {
    matrix: UNCHANGED,
    clip: view,
    fill: 0,
    stroke: 0,
    fill_alpha: 1,
    stroke_alpha: 1,
    group_alpha: 1,
    is_blended: false,
    is_masked: false,
    is_partial: false,
    line_width: 1,
    mode: 0,
    font: PLAIN_FONT,
    font_size: 0,
    h_scale: 1,
    char_spacing: 0,
    word_spacing: 0,
    leading: 0,
    rise: 0,
    outlines: null,
    is_waiting: false,
  };
}

/** `inner` followed by `outer`. */
export function combined(outer: Matrix, inner: Matrix): Matrix {
  return [
    outer[0] * inner[0] + outer[2] * inner[1],
    outer[1] * inner[0] + outer[3] * inner[1],
    outer[0] * inner[2] + outer[2] * inner[3],
    outer[1] * inner[2] + outer[3] * inner[3],
    outer[0] * inner[4] + outer[2] * inner[5] + outer[4],
    outer[1] * inner[4] + outer[3] * inner[5] + outer[5],
  ];
}

/** Where the matrix puts a rectangle. */
export function placed(matrix: Matrix, [x0, y0, x1, y1]: Box): Box {
  const corners = [
    [x0, y0],
    [x0, y1],
    [x1, y0],
    [x1, y1],
  ].map(([x = 0, y = 0]) => [matrix[0] * x + matrix[2] * y + matrix[4], matrix[1] * x + matrix[3] * y + matrix[5]]);
  const xs = corners.map(([x = 0]) => x);
  const ys = corners.map(([, y = 0]) => y);
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}

/** What two rectangles share. It may be empty: its right is then left of its left. */
export function shared(one: Box, other: Box): Box {
  return [
    Math.max(one[0], other[0]),
    Math.max(one[1], other[1]),
    Math.min(one[2], other[2]),
    Math.min(one[3], other[3]),
  ];
}

function numbersOf(value: unknown): number[] {
  return ArrayBuffer.isView(value) || Array.isArray(value) ? Array.from(value as ArrayLike<unknown>, Number) : [];
}

/** A transformation that the parser gives, or null. */
export function matrixOf(value: unknown): Matrix | null {
  const numbers = numbersOf(value);
  return numbers.length === 6 && numbers.every(Number.isFinite) ? (numbers as unknown as Matrix) : null;
}

/** A rectangle that the parser gives, or null. */
export function boxOf(value: unknown): Box | null {
  const numbers = numbersOf(value);
  const [x0, y0, x1, y1] = numbers;
  if (x0 === undefined || y0 === undefined || x1 === undefined || y1 === undefined) return null;
  if (![x0, y0, x1, y1].every(Number.isFinite)) return null;
  return [Math.min(x0, x1), Math.min(y0, y1), Math.max(x0, x1), Math.max(y0, y1)];
}

const MOVE_TO = 0;
const LINE_TO = 1;
const CLOSE = 4;
/** A path of more rectangles is taken for a drawing. */
const MAX_RECTANGLES = 16;

/** The rectangles that a path consists of, or null for another path. */
export function rectanglesOf(path: Float32Array): Box[] | null {
  const found: Box[] = [];
  let points: [number, number][] = [];
  const end = (): boolean => {
    if (points.length < 2) return true;
    const box = rectangleOf(points);
    if (box === null || found.length >= MAX_RECTANGLES || found.some((each) => overlaps(each, box))) return false;
    found.push(box);
    return true;
  };
  for (let at = 0; at < path.length; ) {
    const kind = path[at];
    if (kind === CLOSE) at++;
    else if (kind === MOVE_TO || kind === LINE_TO) {
      if (kind === MOVE_TO) {
        if (!end()) return null;
        points = [];
      }
      if (points.length > 5) return null;
      points.push([path[at + 1] ?? 0, path[at + 2] ?? 0]);
      at += 3;
    } else return null;
  }
  return end() ? found : null;
}

/** Two rectangles in one path may leave a hole. */
const overlaps = (one: Box, other: Box): boolean => {
  const both = shared(one, other);
  return both[0] < both[2] && both[1] < both[3];
};

function rectangleOf(points: readonly (readonly [number, number])[]): Box | null {
  const [first, ...rest] = points;
  const last = rest.at(-1);
  if (first === undefined || last === undefined) return null;
  const corners = first[0] === last[0] && first[1] === last[1] ? points.slice(0, -1) : points;
  const xs = new Set(corners.map(([x]) => x));
  const ys = new Set(corners.map(([, y]) => y));
  if (corners.length !== 4 || xs.size !== 2 || ys.size !== 2) return null;
  const follows = corners.every(([x, y], at) => {
    const [next_x, next_y] = corners[(at + 1) % 4] ?? [x, y];
    return (x === next_x) !== (y === next_y);
  });
  return follows ? [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)] : null;
}
