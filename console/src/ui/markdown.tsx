import { type Block, blocksOf, type Span, spansOf } from "../markdown.ts";

/** What a model has written, as it meant it to look. */
export function Markdown({ text }: { text: string }) {
  return (
    <div className="space-y-2.5 leading-relaxed break-words">
      {blocksOf(text).map((block, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a text only grows at its end
        <BlockView key={place} block={block} />
      ))}
    </div>
  );
}

function BlockView({ block }: { block: Block }) {
  switch (block.kind) {
    case "rule":
      return <hr className="border-line" />;
    case "code":
      return (
        <pre className="overflow-x-auto rounded-lg bg-sunken p-3 font-mono text-sm leading-normal">{block.text}</pre>
      );
    case "list":
      return (
        <ul className="space-y-1">
          {block.items.map(({ mark, depth, text }, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a text only grows at its end
            <li key={place} className="flex gap-2" style={{ paddingLeft: `${depth * 1.25}rem` }}>
              <span className="min-w-4 shrink-0 text-muted">{mark}</span>
              <span className="min-w-0 whitespace-pre-wrap">
                <Spans text={text} />
              </span>
            </li>
          ))}
        </ul>
      );
    case "table":
      return <TableView head={block.head} rows={block.rows} />;
    default: {
      const look = { heading: "font-semibold", quote: "border-l-2 border-line pl-3 text-muted", paragraph: "" };
      return (
        <p className={`whitespace-pre-wrap ${look[block.kind]}`}>
          <Spans text={block.text} />
        </p>
      );
    }
  }
}

function TableView({ head, rows }: { head: string[]; rows: string[][] }) {
  return (
    <div className="overflow-x-auto">
      <table>
        <thead>
          <RowView cells={head} cell="th" />
        </thead>
        <tbody>
          {rows.map((cells, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a text only grows at its end
            <RowView key={place} cells={cells} cell="td" />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function RowView({ cells, cell: Cell }: { cells: string[]; cell: "th" | "td" }) {
  return (
    <tr className="border-b border-line">
      {cells.map((text, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: columns never change places
        <Cell key={place} className="py-1 pr-5 text-left align-top">
          <Spans text={text} />
        </Cell>
      ))}
    </tr>
  );
}

function Spans({ text }: { text: string }) {
  return spansOf(text).map((span, place) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: a text only grows at its end
    <SpanView key={place} span={span} />
  ));
}

function SpanView({ span: { kind, text } }: { span: Span }) {
  if (kind === "code") return <code className="rounded bg-sunken px-1 py-px text-sm">{text}</code>;
  if (kind === "strong") return <strong className="font-semibold">{text}</strong>;
  if (kind === "emphasis") return <em>{text}</em>;
  if (kind === "text") return <>{text}</>;
  return (
    <a href={text} target="_blank" rel="noreferrer nofollow" className="link break-all">
      {text}
    </a>
  );
}
