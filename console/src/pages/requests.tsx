import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { keysQuery, listFrom, MOST } from "../api/queries.ts";
import { chosenFilters, useFilterSetter } from "../filters.ts";
import { daysOfFields, dollars, instant, number, period } from "../format.ts";
import { RequestPanel } from "../parts/request-panel.tsx";
import {
  apiName,
  callerName,
  failureWords,
  type LoggedRequest,
  STATUS_FILTERS,
  STATUS_TONES,
  statusFilterName,
} from "../request-words.ts";
import { Badge, Card, Empty, PageHeader } from "../ui/basics.tsx";
import { BesideList } from "../ui/beside-list.tsx";
import { useCsvDownload } from "../ui/csv-download.tsx";
import { DayField } from "../ui/fields.tsx";
import { useFirstPage } from "../ui/list.tsx";
import { ModelPicker } from "../ui/picker.tsx";
import { SelectField } from "../ui/select.tsx";
import { rowLink, VirtualList } from "../ui/virtual-list.tsx";
import { useMinWidth, type VirtualColumn } from "../ui/virtual-table.tsx";
import { WaitingField } from "../ui/waiting-field.tsx";

type Filters = Record<string, string | undefined>;
const requestsQuery = (filters: Filters) => ({
  ...listFrom(["requests", filters], "GET /api/v1/users/me/requests", "requests", { query: filters, limit: MOST }),
  refetchOnWindowFocus: false,
});

const seconds = (ms: number | null) => (ms === null ? "" : ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`);

/** Opens the request beside the list. The whole row is its link. */
function RequestLink({ request, className = "" }: { request: LoggedRequest; className?: string }) {
  return (
    <Link
      from="/developers/requests"
      to="."
      search={(old) => ({ ...old, request: request.id })}
      {...rowLink(className)}
    >
      {request.model ?? "No model"}
      <span className="sr-only">, request of {instant(request.created_at)}</span>
    </Link>
  );
}

function StatusBadge({ request: { status, http_status } }: { request: LoggedRequest }) {
  return (
    <Badge tone={STATUS_TONES[status]}>
      {statusFilterName(status)}
      {http_status !== 200 && ` ${http_status}`}
    </Badge>
  );
}

const textCell = (text: string | null) => <span className="block truncate text-muted">{text}</span>;

const COLUMNS: VirtualColumn<LoggedRequest>[] = [
  { id: "status", title: "Status", width: "7.5rem", cell: (request) => <StatusBadge request={request} /> },
  { id: "model", title: "Model", width: "minmax(7rem,1fr)", cell: (request) => <RequestLink request={request} /> },
  { id: "api", title: "API", width: "9.5rem", cell: (request) => textCell(apiName(request)) },
  { id: "caller", title: "Caller", width: "minmax(5rem,8rem)", cell: (request) => textCell(callerName(request)) },
  { id: "user", title: "End user", width: "minmax(5rem,7rem)", cell: ({ user }) => textCell(user) },
  { id: "tokens", title: "Tokens", width: "5.5rem", numeric: true, cell: ({ total_tokens }) => number(total_tokens) },
  { id: "cost", title: "Cost", width: "6.5rem", numeric: true, cell: ({ cost_tokens }) => dollars(cost_tokens) },
  { id: "duration", title: "Duration", width: "5rem", numeric: true, cell: ({ duration_ms }) => seconds(duration_ms) },
  {
    id: "when",
    title: "Ended",
    width: "9rem",
    numeric: true,
    cell: ({ created_at }) => <span className="whitespace-nowrap text-muted">{instant(created_at)}</span>,
  },
  {
    id: "phone",
    title: "Request",
    width: "minmax(0,1fr)",
    cell: (request) => (
      <>
        <span className="flex items-baseline justify-between gap-3">
          <RequestLink request={request} className="min-w-0" />
          <span className="shrink-0 text-sm text-muted">{instant(request.created_at)}</span>
        </span>
        {textCell(
          request.error === null ? `${apiName(request)} · ${callerName(request)}` : failureWords(request.error),
        )}
        <span className="flex items-center justify-between gap-3">
          <StatusBadge request={request} />
          <span>{dollars(request.cost_tokens)}</span>
        </span>
      </>
    ),
  },
];
const NARROW = { phone: false, api: false, user: false, tokens: false, duration: false };
const HIDDEN = {
  phone: { ...NARROW, phone: true, status: false, model: false, caller: false, cost: false, when: false },
  narrow: NARROW,
  wide: { phone: false },
};

const STATUS_OPTIONS = [["", "All"], ...STATUS_FILTERS.map((each) => [each, statusFilterName(each)] as const)] as const;
const DURATIONS = [
  ["", "All"],
  ["1000", "1 s or more"],
  ["5000", "5 s or more"],
  ["15000", "15 s or more"],
  ["60000", "60 s or more"],
] as const;
const keyOf = ({ id }: LoggedRequest) => id;

/** Each request to a model, rejected and failed ones too. */
export function RequestsPage() {
  const search = useSearch({ from: "/signed-in/developers/requests" });
  const { request: open, from, to, min_ms, ...exact } = search;
  const set = useFilterSetter();
  const filters = chosenFilters({ ...exact, min_ms: min_ms?.toString(), ...period(from, to) });
  const days = daysOfFields(from, to);
  const csv = useCsvDownload("/api/v1/users/me/requests", {
    filters,
    of: "requests",
    saved: "Requests downloaded",
  });
  const loaded = useInfiniteQuery(requestsQuery(filters));
  const rows = loaded.data?.pages.flatMap((page) => page.rows) ?? [];
  const keys = useFirstPage(keysQuery).rows ?? [];
  const key_options = [["", "All"], ...keys.map(({ id, name }) => [id, name] as const)] as [string, string][];
  if (exact.api_key_id !== undefined && !keys.some(({ id }) => id === exact.api_key_id)) {
    key_options.push([exact.api_key_id, `Key …${exact.api_key_id.slice(-6)}`]);
  }
  const is_wide = useMinWidth("(min-width: 64rem)");
  const is_phone = !useMinWidth("(min-width: 48rem)");
  const found = rows.find(({ id }) => id === open);
  const has_filters = Object.keys(filters).length > 0;
  const more = [min_ms, from, to, exact.user].some((each) => each !== undefined);
  const list = (
    <Card flush>
      <div className="space-y-3 border-b border-line px-4 py-3">
        <div className="grid grid-cols-2 items-end gap-3 sm:flex sm:flex-wrap">
          <div className="max-sm:col-span-2">
            <WaitingField
              label="Request id"
              type="search"
              value={exact.request_id ?? ""}
              onValue={set("request_id")}
              placeholder="X-Request-Id of the answer"
            />
          </div>
          <SelectField
            label="Status"
            className="w-full sm:w-40"
            value={exact.status ?? ""}
            options={STATUS_OPTIONS}
            onValue={set("status")}
          />
          <ModelPicker
            label="Model"
            className="w-full sm:w-40"
            value={exact.model ?? ""}
            none="All"
            onValue={set("model")}
          />
          <SelectField
            label="API key"
            className="w-full sm:w-40"
            value={exact.api_key_id ?? ""}
            options={key_options}
            onValue={set("api_key_id")}
          />
          {csv.button}
        </div>
        <details open={more}>
          <summary className="w-fit text-sm text-muted hover:text-ink">More filters</summary>
          <div className="mt-2 grid grid-cols-2 items-end gap-3 sm:flex sm:flex-wrap">
            <WaitingField label="End user" value={exact.user ?? ""} onValue={set("user")} placeholder="customer-4711" />
            <SelectField
              label="Duration"
              className="w-full sm:w-36"
              value={DURATIONS.some(([value]) => value === String(min_ms)) ? String(min_ms) : ""}
              options={DURATIONS}
              onValue={(ms) => set("min_ms")(ms === "" ? "" : Number(ms))}
            />
            <DayField label="From" value={days.from} onValue={set("from")} />
            <DayField label="To" value={days.to} onValue={set("to")} />
          </div>
        </details>
      </div>
      {csv.problem}
      <VirtualList
        loaded={loaded}
        label="Requests"
        columns={COLUMNS}
        hidden={is_phone ? HIDDEN.phone : !is_wide || open !== undefined ? HIDDEN.narrow : HIDDEN.wide}
        rows={rows}
        keyOf={keyOf}
        row_rem={is_phone ? 6 : 2.75}
        current={open}
        empty={
          <Empty icon="usage" title={has_filters ? "No requests match these filters" : "No requests yet"}>
            {has_filters ? "Choose other filters." : "Each request of your programs to a model is listed here."}
          </Empty>
        }
      />
    </Card>
  );
  return (
    <div data-wide>
      <PageHeader
        title="Requests"
        note="Each request to a model, rejected and failed ones too, newest first. A request with an invalid key belongs to no account and is not listed."
      />
      <BesideList
        list={list}
        panel={open !== undefined && <RequestPanel key={open} request={found} is_loading={loaded.isPending} />}
        title="Request"
        is_wide={is_wide}
        onClose={() => set("request")("")}
      />
    </div>
  );
}
