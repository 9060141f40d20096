import { useEffect, useState } from "react";
import type { MarkdownNode } from "../markdown.ts";

/** A text that takes longer stays plain. The limit includes the start of the worker. */
const PARSE_MS = 5000;
/** Parsed texts that are kept, so that a page can be shown again at once. */
const MAX_KEPT = 200;

const kept = new Map<string, MarkdownNode | null>();
let worker: Worker | null = null;
let queue: Promise<unknown> = Promise.resolve();

/** Parses in the worker. null: the text took too long or cannot be parsed. */
function parseInWorker(text: string): Promise<MarkdownNode | null> {
  return new Promise((resolve) => {
    const current = worker ?? new Worker(new URL("../markdown.worker.ts", import.meta.url), { type: "module" });
    worker = current;
    const end = (tree: MarkdownNode | null, usable: boolean) => {
      clearTimeout(timer);
      if (!usable) {
        current.terminate();
        worker = null;
      }
      resolve(tree);
    };
    const timer = setTimeout(() => end(null, false), PARSE_MS);
    current.onmessage = ({ data }: MessageEvent<MarkdownNode | null>) => end(data, true);
    current.onerror = () => end(null, false);
    current.postMessage(text);
  });
}

/** One text at a time. Skips a text that the page no longer shows; undefined then. */
function parse(text: string, isShown: () => boolean): Promise<MarkdownNode | null | undefined> {
  const parsed = queue.then(async () => {
    if (!isShown() || kept.has(text)) return kept.get(text);
    const tree = await parseInWorker(text);
    kept.set(text, tree);
    const oldest = kept.keys().next().value;
    if (kept.size > MAX_KEPT && oldest !== undefined) kept.delete(oldest);
    return tree;
  });
  queue = parsed;
  return parsed;
}

/** A model's text with its Markdown rendered. It is plain until the worker has parsed it. */
export function Markdown({ text }: { text: string }) {
  const [shown, setShown] = useState({ text, tree: kept.get(text) ?? null });
  useEffect(() => {
    let current = true;
    void parse(text, () => current).then((tree) => current && tree !== undefined && setShown({ text, tree }));
    return () => {
      current = false;
    };
  }, [text]);
  // A streamed text keeps the tree of its beginning until the worker has parsed the rest.
  const tree = text.startsWith(shown.text) ? shown.tree : null;
  return (
    <div className="space-y-2.5 leading-relaxed wrap-anywhere">
      {tree === null ? (
        <p dir="auto" className="whitespace-pre-wrap">
          {text}
        </p>
      ) : (
        <Nodes nodes={tree.children ?? []} />
      )}
    </div>
  );
}

/** `tight`: paragraphs without a space between them, as in list items. */
function Nodes({ nodes, tight = false }: { nodes: readonly MarkdownNode[]; tight?: boolean }) {
  return nodes.map((node, place) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: a streamed text only grows at its end
    <Node key={place} node={node} tight={tight} />
  ));
}

function Node({ node, tight }: { node: MarkdownNode; tight: boolean }) {
  const inside = <Nodes nodes={node.children ?? []} />;
  switch (node.kind) {
    case "text":
      return <>{node.text}</>;
    case "code":
      return <code className="rounded bg-sunken px-1 py-px text-sm">{node.text}</code>;
    case "codeBlock":
      return (
        <pre
          dir="ltr"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls long lines
          tabIndex={0}
          className="overflow-x-auto rounded-lg bg-sunken p-3 font-mono text-sm leading-normal wrap-normal"
        >
          {node.text}
        </pre>
      );
    case "rule":
      return <hr className="border-line" />;
    case "break":
      return <br />;
    case "strong":
      return <strong className="font-semibold">{inside}</strong>;
    case "emphasis":
      return <em>{inside}</em>;
    case "deleted":
      return <del>{inside}</del>;
    case "heading":
      return (
        <p dir="auto" className="font-semibold">
          {inside}
        </p>
      );
    case "quote":
      return <blockquote className="space-y-2.5 border-l-2 border-line pl-3 text-muted">{inside}</blockquote>;
    case "list":
      return (
        <ul dir="auto" className="list-disc space-y-1 ps-5">
          {inside}
        </ul>
      );
    case "orderedList":
      return (
        <ol dir="auto" className="list-decimal space-y-1 ps-6" start={node.start}>
          {inside}
        </ol>
      );
    case "item":
      return <Item node={node} />;
    case "table":
      return <Table rows={node.children ?? []} align={node.align ?? []} />;
    case "link":
      return (
        <a href={node.url} target="_blank" rel="noreferrer nofollow" className="link break-all">
          {node.text}
        </a>
      );
    default:
      return tight ? (
        <div className="whitespace-pre-wrap">{inside}</div>
      ) : (
        <p dir="auto" className="whitespace-pre-wrap">
          {inside}
        </p>
      );
  }
}

function Item({ node: { checked, children = [] } }: { node: MarkdownNode }) {
  if (checked === undefined) {
    return (
      <li className="space-y-1">
        <Nodes nodes={children} tight />
      </li>
    );
  }
  return (
    <li className="-ms-5 flex list-none gap-1.5">
      <span>{checked ? "☑" : "☐"}</span>
      <div className="min-w-0 space-y-1">
        <Nodes nodes={children} tight />
      </div>
    </li>
  );
}

const ALIGNED = { left: "text-left", center: "text-center", right: "text-right" } as const;

function Table({ rows, align }: { rows: readonly MarkdownNode[]; align: NonNullable<MarkdownNode["align"]> }) {
  const [head, ...body] = rows;
  const rowOf = (row: MarkdownNode, Cell: "th" | "td", key: number) => (
    <tr key={key} className="border-b border-line">
      {(row.children ?? []).map((cell, place) => {
        const side = align[place];
        return (
          <Cell
            // biome-ignore lint/suspicious/noArrayIndexKey: columns keep their order
            key={place}
            className={`min-w-20 py-1 pe-5 align-top wrap-break-word ${side ? ALIGNED[side] : "text-start"}`}
          >
            <Nodes nodes={cell.children ?? []} />
          </Cell>
        );
      })}
    </tr>
  );
  return (
    <div
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls wide tables
      tabIndex={0}
      className="overflow-x-auto"
    >
      <table dir="auto">
        {head !== undefined && <thead>{rowOf(head, "th", 0)}</thead>}
        <tbody>{body.map((row, place) => rowOf(row, "td", place))}</tbody>
      </table>
    </div>
  );
}
