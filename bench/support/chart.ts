import { figureText } from "./print.ts";

const WIDTH = 720;
const LABEL_WIDTH = 250;
const FIGURE_WIDTH = 80;
const BAR_HEIGHT = 18;
const ROW_HEIGHT = 28;
const TITLE_HEIGHT = 40;

/** Separate colours for light and dark pages, because an image sees the reader's preference, not the page's. */
const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-weight: 600; }
  .bar { fill: #9aa4b2; }
  .ours { fill: #2563eb; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .bar { fill: #6b7686; }
    .ours { fill: #6ea8fe; }
  }`;

/**
 * One bar for each figure as an SVG document; the longest has the full width. Purser's own bars have a different
 * colour.
 */
export function barChart(title: string, bars: readonly { name: string; value: number }[]): string {
  const longest = Math.max(...bars.map(({ value }) => value));
  const most = WIDTH - LABEL_WIDTH - FIGURE_WIDTH;
  const height = TITLE_HEIGHT + bars.length * ROW_HEIGHT;
  const rows = bars.map(({ name, value }, index) => {
    const y = TITLE_HEIGHT + index * ROW_HEIGHT;
    const width = Math.max(1, Math.round((value / longest) * most));
    const kind = name.startsWith("Purser") ? "bar ours" : "bar";
    return [
      `  <text x="${LABEL_WIDTH - 10}" y="${y + 14}" text-anchor="end">${escaped(name)}</text>`,
      `  <rect class="${kind}" x="${LABEL_WIDTH}" y="${y}" width="${width}" height="${BAR_HEIGHT}" rx="3"/>`,
      `  <text x="${LABEL_WIDTH + width + 8}" y="${y + 14}">${figureText(value)}</text>`,
    ].join("\n");
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(title)}">`,
    `  <style>${STYLE}\n  </style>`,
    `  <text class="title" x="0" y="18">${escaped(title)}</text>`,
    ...rows,
    "</svg>\n",
  ].join("\n");
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
