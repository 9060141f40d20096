import { type Box, createGrid } from "./pdf-grid.ts";
import * as pdf from "./pdf-state.ts";

/** A group of paints that is painted as one. One with `smask` is a mask, and not seen. */
export interface Group {
  readonly smask?: unknown;
  readonly matrix?: unknown;
  readonly bbox?: unknown;
}

/** More transparent paint is not seen. */
export const SEEN_ALPHA = 0.05;
/** Thinner lines are no background. */
const THICK_LINE = 2;

/**
 * The paints of a page, without its text: the graphics state, and the grid of what is painted where. Images are not in
 * the drawing, since decoding them would take most of the time. A transformation after which nothing is painted is the
 * place of one.
 */
export type Paint = ReturnType<typeof createPaint>;

/** @param page.isLayerShown whether a layer is switched on */
export function createPaint({ view, isLayerShown }: { view: Box; isLayerShown: (layer: unknown) => boolean }) {
  const grid = createGrid(view);
  const saved: pdf.State[] = [];
  const layers: boolean[] = [];
  let layers_off = 0;
  let masks = 0;
  let clips = false;
  let state = pdf.firstState(view);

  /** Whether what is painted now is on the page at all. */
  const isOnPage = () => masks === 0 && layers_off === 0;

  /** All letters before one that is shown are shown already. */
  function showOutlines(): void {
    for (let at = state.outlines; at !== null && at.glyph.hidden_by !== null; at = at.before) at.glyph.hidden_by = null;
  }

  function blur(box: Box, is_picture: boolean): void {
    const seen = pdf.shared(box, state.clip);
    if (seen[0] >= seen[2] || seen[1] >= seen[3] || !isOnPage()) return;
    grid.blur(seen, { is_picture });
    showOutlines();
  }

  function fillRectangle(box: Box): void {
    const alpha = state.fill_alpha * state.group_alpha;
    if (state.fill === "none" || alpha <= SEEN_ALPHA || !isOnPage()) return;
    if (state.fill === null || alpha < 1 || state.is_blended || state.is_masked || state.is_partial) {
      blur(box, false);
      return;
    }
    const seen = pdf.shared(box, state.clip);
    if (seen[0] >= seen[2] || seen[1] >= seen[3]) return;
    grid.fill(seen, state.fill);
    showOutlines();
  }

  /** An image fills the unit square. */
  function endWaiting(): void {
    if (state.is_waiting) blur(pdf.placed(state.matrix, [0, 0, 1, 1]), true);
    state.is_waiting = false;
  }

  const isUpright = ([a, b, c, d]: pdf.Matrix) => (b === 0 && c === 0) || (a === 0 && d === 0);

  /** The rectangles of a path if they are upright on the page, or null. */
  const uprightOf = (data: unknown): Box[] | null =>
    isUpright(state.matrix) && data instanceof Float32Array ? pdf.rectanglesOf(data) : null;

  function fillPath(data: unknown, bounds: Box | null): void {
    const { matrix } = state;
    const rectangles = uprightOf(data);
    if (bounds !== null) state.is_waiting = false;
    if (rectangles !== null) for (const each of rectangles) fillRectangle(pdf.placed(matrix, each));
    else if (bounds !== null && state.fill !== "none") blur(pdf.placed(matrix, bounds), true);
  }

  function strokePath(bounds: Box | null): void {
    if (bounds === null) return;
    state.is_waiting = false;
    const { matrix, line_width } = state;
    const [left, bottom, right, top] = bounds;
    if (line_width * Math.hypot(matrix[0], matrix[1]) < THICK_LINE) return;
    const half = line_width / 2;
    blur(pdf.placed(matrix, [left - half, bottom - half, right + half, top + half]), false);
  }

  function clipTo(box: Box | null, matrix = state.matrix): void {
    if (box === null) return;
    state.clip = pdf.shared(state.clip, pdf.placed(matrix, box));
    state.is_partial ||= !isUpright(matrix);
  }

  function save(): void {
    saved.push(state);
    state = { ...state, is_waiting: false };
  }

  function restore(): void {
    endWaiting();
    state = saved.pop() ?? state;
    state.is_waiting = false;
  }

  return {
    grid,
    state: () => state,
    set: (changes: Partial<pdf.State>): void => void Object.assign(state, changes),
    isLayerOff: () => layers_off > 0,
    isMask: () => masks > 0,
    blur,
    endWaiting,
    painted(): void {
      state.is_waiting = false;
    },
    save,
    restore,
    transform(matrix: unknown): void {
      endWaiting();
      const inner = pdf.matrixOf(matrix);
      if (inner === null) return;
      state.matrix = pdf.combined(state.matrix, inner);
      state.is_waiting = true;
    },
    clipTo,
    clipNext(): void {
      clips = true;
    },
    image: (): void => {
      blur(pdf.placed(state.matrix, [0, 0, 1, 1]), true);
      state.is_waiting = false;
    },
    /** A path is painted, and clips what follows if `clipNext` was called. */
    path({ fills, strokes }: { fills: boolean; strokes: boolean }, data: unknown, bounds: Box | null): void {
      if (fills) fillPath(data, bounds);
      if (strokes) strokePath(bounds);
      if (clips) {
        clipTo(bounds);
        state.is_partial ||= uprightOf(data)?.length !== 1;
      }
      clips = false;
    },
    beginGroup({ smask, matrix, bbox }: Group): void {
      save();
      if (smask || masks > 0) masks++;
      clipTo(pdf.boxOf(bbox), pdf.combined(state.matrix, pdf.matrixOf(matrix) ?? pdf.UNCHANGED));
      state.group_alpha *= state.fill_alpha;
      state.is_partial ||= state.is_blended || state.is_masked;
      state.fill_alpha = 1;
      state.stroke_alpha = 1;
    },
    endGroup(): void {
      restore();
      if (masks > 0) masks--;
    },
    beginContent(tag: unknown, layer: unknown): void {
      const is_off = tag === "OC" && layer !== null && layer !== undefined && !isLayerShown(layer);
      layers.push(is_off);
      if (is_off) layers_off++;
    },
    endContent(): void {
      if (layers.pop() === true) layers_off--;
    },
  };
}
