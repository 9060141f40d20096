/** A rectangle on the page: left, bottom, right, top. */
export type Box = readonly [left: number, bottom: number, right: number, top: number];

/** What a cell shows: a colour as 0xrrggbb, or this for an image, a pattern or a mixture. */
export const UNKNOWN = -1;
const WHITE = 0xffffff;
/** A cell of an A4 page is about 1.4 points wide. Finer ones tell no more about text that people can read. */
const CELLS = 250_000;
/** Narrower rectangles, in cells, are lines: they neither cover text nor are its background. */
const MIN_THICKNESS = 1.5;
/** Cells larger than this, in points, are of a page larger than A2. They may be partly in a rectangle that matters. */
const COARSE = 3;

/**
 * What is painted where on a page, in cells. It takes the place of a picture of the page: a paint costs at most as many
 * steps as there are cells.
 */
export interface Grid {
  /** Paints a rectangle. Returns without an effect if it is only a line. */
  readonly fill: (box: Box, colour: number) => void;
  /** Notes something whose look is not known: its colour, or whether it covers what is below it. */
  readonly blur: (box: Box, options: { is_picture: boolean }) => void;
  readonly colourAt: (x: number, y: number) => number;
  /** Whether a rectangle was painted there after `moment`. */
  readonly isCovered: (x: number, y: number, moment: number) => boolean;
  /** Whether an image or a drawing is there. */
  readonly isPictured: (x: number, y: number) => boolean;
  /** The number of rectangles that were painted until now. */
  readonly now: () => number;
}

/** An empty, white page. */
export function createGrid([left, bottom, right, top]: Box): Grid {
  const width = Math.max(right - left, 1);
  const height = Math.max(top - bottom, 1);
  const cell = Math.sqrt((width * height) / CELLS);
  const columns = Math.max(1, Math.min(Math.ceil(width / cell), CELLS));
  const rows = Math.max(1, Math.min(Math.ceil(height / cell), CELLS));
  const colours = new Int32Array(columns * rows).fill(WHITE);
  const moments = new Int32Array(columns * rows);
  const pictured = new Uint8Array(columns * rows);
  let moment = 0;

  const column = (x: number) => Math.max(0, Math.min((x - left) / cell, columns));
  const row = (y: number) => Math.max(0, Math.min((y - bottom) / cell, rows));
  const cellAt = (x: number, y: number) =>
    Math.min(Math.floor(row(y)), rows - 1) * columns + Math.min(Math.floor(column(x)), columns - 1);

  /** Calls `paint` with each row's cells in the box. `edge`: the part of a cell that must be in it, 0 if the box only touches it. */
  function eachRow([x0, y0, x1, y1]: Box, edge: 0 | 0.5 | 1, paint: (from: number, to: number) => void): void {
    const first = Math.max(0, Math.floor(column(x0) + edge));
    const last = Math.min(columns, Math.ceil(column(x1) - edge));
    const end = Math.min(rows, Math.ceil(row(y1) - edge));
    if (last <= first) return;
    for (let at = Math.max(0, Math.floor(row(y0) + edge)); at < end; at++)
      paint(at * columns + first, at * columns + last);
  }

  const blur: Grid["blur"] = (box, { is_picture }) =>
    eachRow(box, 0, (from, to) => {
      colours.fill(UNKNOWN, from, to);
      if (is_picture) pictured.fill(1, from, to);
    });

  return {
    fill(box, colour) {
      if (cell > COARSE) blur(box, { is_picture: false });
      if (Math.min(box[2] - box[0], box[3] - box[1]) < MIN_THICKNESS * cell) return;
      moment++;
      eachRow(box, cell > COARSE ? 1 : 0.5, (from, to) => {
        colours.fill(colour, from, to);
        moments.fill(moment, from, to);
      });
    },
    blur,
    colourAt: (x, y) => colours[cellAt(x, y)] ?? UNKNOWN,
    isCovered: (x, y, since) => (moments[cellAt(x, y)] ?? 0) > since,
    isPictured: (x, y) => pictured[cellAt(x, y)] === 1,
    now: () => moment,
  };
}
