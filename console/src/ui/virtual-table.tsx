import {
  columnVisibilityFeature,
  createColumnHelper,
  FlexRender,
  type Row,
  type RowSelectionState,
  rowSelectionFeature,
  tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  memo,
  type ReactNode,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";

/** Whether the window is at least this wide. */
export function useMinWidth(query: string): boolean {
  const media = useMemo(() => matchMedia(query), [query]);
  return useSyncExternalStore(
    useCallback(
      (changed) => {
        media.addEventListener("change", changed);
        return () => media.removeEventListener("change", changed);
      },
      [media],
    ),
    () => media.matches,
  );
}

/** A list of any length that scrolls with the page: only the rows in view are in the document. */

export interface VirtualColumn<Item> {
  id: string;
  title: string;
  /** Its width in the grid: `8rem`, or `minmax(0,1fr)`. */
  width: string;
  numeric?: boolean;
  cell: (row: Item) => ReactNode;
}

export interface VirtualTableProps<Item> {
  label: string;
  columns: readonly VirtualColumn<Item>[];
  /** Columns that are not shown now, by id. */
  hidden: Readonly<Record<string, boolean>>;
  rows: readonly Item[];
  keyOf: (row: Item) => string;
  row_rem: number;
  /** The row that is shown beside the table. */
  current?: string | undefined;
  selected?: RowSelectionState;
  /** Absent: no row can be selected. */
  onSelected?: (selected: RowSelectionState) => void;
  /** There are more rows than these. */
  has_more: boolean;
  /** Called when the last rows come into view. */
  onEnd: () => void;
}

const features = tableFeatures({ rowSelectionFeature, columnVisibilityFeature });
type Features = typeof features;
const SELECT = "select";
const NONE: RowSelectionState = {};
/** Rows above and below the window that are drawn in advance. */
const OVERSCAN = 12;
/** Rows before the end at which the next ones are asked for. */
const AHEAD = 40;

export function VirtualTable<Item extends object>(props: VirtualTableProps<Item>) {
  const { label, columns, hidden, rows, keyOf, row_rem, current, has_more, onEnd } = props;
  const { selected = NONE, onSelected } = props;
  const is_selectable = onSelected !== undefined;
  const list = useRef<HTMLTableSectionElement>(null);
  const definitions = useMemo(() => {
    const helper = createColumnHelper<Features, Item>();
    const select = helper.display({
      id: SELECT,
      header: ({ table }) => (
        <Checkbox
          label="Select all loaded rows"
          checked={table.getIsAllRowsSelected()}
          onChange={(checked) => table.toggleAllRowsSelected(checked)}
        />
      ),
      cell: ({ row }) => (
        <Checkbox
          label="Select row"
          checked={row.getIsSelected()}
          onChange={(checked) => row.toggleSelected(checked)}
        />
      ),
    });
    const shown = columns.map(({ id, title, cell }) =>
      helper.display({
        id,
        header: () => (title === "" ? <span className="sr-only">Actions</span> : title),
        cell: ({ row }) => cell(row.original),
      }),
    );
    return helper.columns(is_selectable ? [select, ...shown] : shown);
  }, [columns, is_selectable]);
  const table = useTable({
    features,
    columns: definitions,
    data: rows,
    getRowId: keyOf,
    state: { rowSelection: selected, columnVisibility: hidden },
    onRowSelectionChange: (update) => onSelected?.(typeof update === "function" ? update(selected) : update),
  });
  const looks = useMemo(() => new Map(columns.map((column) => [column.id, column])), [columns]);
  const template = table
    .getVisibleLeafColumns()
    .map(({ id }) => looks.get(id)?.width ?? "2.5rem")
    .join(" ");
  const { rows: all } = table.getRowModel();

  const [margin, setMargin] = useState(0);
  useLayoutEffect(() => {
    const top = (list.current?.getBoundingClientRect().top ?? 0) + window.scrollY;
    setMargin(Math.round(top));
  });
  const row_px = useMemo(
    () => row_rem * Number.parseFloat(getComputedStyle(document.documentElement).fontSize),
    [row_rem],
  );
  const virtual = useWindowVirtualizer({
    count: all.length,
    estimateSize: () => row_px,
    getItemKey: (index) => all[index]?.id ?? index,
    overscan: OVERSCAN,
    scrollMargin: margin,
    useFlushSync: false,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: the sizes change with the rows' height
  useEffect(() => virtual.measure(), [row_px]);
  const shown = virtual.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (has_more && last >= all.length - AHEAD) onEnd();
  }, [has_more, last, all.length, onEnd]);

  /** The arrow keys go from row to row. */
  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const row = (event.target as HTMLElement).closest<HTMLElement>("[data-index]");
    if (step === undefined || row === null || (event.target as HTMLElement).tagName !== "A") return;
    event.preventDefault();
    const next = Number(row.dataset.index) + step;
    if (next < 0 || next >= all.length) return;
    virtual.scrollToIndex(next);
    const link = () => list.current?.querySelector<HTMLElement>(`[data-index="${next}"] a`);
    // A row outside the window is drawn with the next frame.
    if (link() == null) requestAnimationFrame(() => link()?.focus());
    else link()?.focus();
  };

  return (
    // The elements are blocks and grids, because each row stands at a place of its own.
    <table aria-label={label} aria-rowcount={has_more ? -1 : all.length + 1} className="block">
      <thead className="sticky top-12 z-[5] block border-b border-line bg-panel md:top-0">
        {table.getHeaderGroups().map((group) => (
          <tr
            key={group.id}
            aria-rowindex={1}
            className="grid text-xs text-muted"
            style={{ gridTemplateColumns: template }}
          >
            {group.headers.map((header) => (
              <th
                key={header.id}
                scope="col"
                className={`truncate px-2 py-2 font-medium ${looks.get(header.column.id)?.numeric === true ? "text-right" : "text-left"}`}
              >
                <FlexRender header={header} />
              </th>
            ))}
          </tr>
        ))}
      </thead>
      <tbody ref={list} className="relative block" style={{ height: virtual.getTotalSize() }} onKeyDown={onKeyDown}>
        {shown.map(({ index, start }) => {
          const row = all[index];
          if (row === undefined) return null;
          return (
            <VirtualRow
              key={row.id}
              row={row}
              looks={looks}
              index={index}
              top={start - margin}
              height={row_px}
              template={template}
              is_current={row.id === current}
              is_selected={selected[row.id] === true}
            />
          );
        })}
      </tbody>
    </table>
  );
}

interface VirtualRowProps<Item extends object> {
  row: Row<Features, Item>;
  looks: ReadonlyMap<string, Pick<VirtualColumn<Item>, "numeric">>;
  index: number;
  top: number;
  height: number;
  template: string;
  is_current: boolean;
  is_selected: boolean;
}

function DrawnRow<Item extends object>(props: VirtualRowProps<Item>) {
  const { row, looks, index, top, height, template, is_current, is_selected } = props;
  return (
    <tr
      aria-rowindex={index + 2}
      aria-current={is_current ? "true" : undefined}
      data-index={index}
      className={`absolute inset-x-0 grid items-center border-b border-line ${is_current ? "bg-accent-soft" : is_selected ? "bg-sunken" : "hover:bg-sunken/60"}`}
      style={{ gridTemplateColumns: template, height, transform: `translateY(${top}px)` }}
    >
      {row.getVisibleCells().map((cell) => (
        <td key={cell.id} className={`min-w-0 px-2 ${looks.get(cell.column.id)?.numeric === true ? "text-right" : ""}`}>
          <FlexRender cell={cell} />
        </td>
      ))}
    </tr>
  );
}

/** Drawn again only if it changes: otherwise each row that comes into view would draw all others. */
const VirtualRow = memo(
  DrawnRow,
  ({ row: before, ...one }, { row: after, ...other }) =>
    before.original === after.original &&
    (Object.keys(one) as (keyof typeof one)[]).every((name) => one[name] === other[name]),
) as typeof DrawnRow;

interface CheckboxProps {
  label: string;
  checked: boolean;
  onChange: (checked: boolean) => void;
}
function Checkbox({ label, checked, onChange }: CheckboxProps) {
  return (
    <input
      type="checkbox"
      aria-label={label}
      className="relative z-[1] block size-4 accent-accent"
      checked={checked}
      onChange={(event) => onChange(event.target.checked)}
    />
  );
}
