import { useMutation } from "@tanstack/react-query";
import { addressOf, download } from "../api/client.ts";
import { daysOfFields } from "../format.ts";
import { Button } from "./basics.tsx";
import { ProblemNotice } from "./problem.tsx";
import { confirmSaved } from "./saved.tsx";

interface Days {
  from?: string | undefined;
  to?: string | undefined;
}
interface CsvOptions {
  filters: Days & Record<string, unknown>;
  /** What the file has, as its name says. */
  of: string;
  /** The first and the last day; absent: those of the filters. */
  days?: Days;
  saved: string;
}

/** Such as purser-requests-2026-03-01-to-2026-03-31.csv. */
function fileName(of: string, days: Days): string {
  const { from, to } = daysOfFields(days.from, days.to);
  const parts = ["purser", of, from, ...(to === "" || to === from ? [] : ["to", to])];
  return `${parts.filter((part) => part !== "").join("-")}.csv`;
}

/** The button at the end of a list's filters that downloads what they find, and the notice if that failed. */
export function useCsvDownload(path: string, { filters, of, days = filters, saved }: CsvOptions) {
  const save = useMutation({
    mutationFn: () => download(addressOf(path, {}, { ...filters, format: "csv" }), fileName(of, days)),
    onSuccess: () => confirmSaved(saved),
  });
  const button = (
    <Button
      icon="download"
      className="max-sm:col-span-2 sm:ml-auto"
      busy={save.isPending}
      onClick={() => save.mutate()}
    >
      Download CSV
    </Button>
  );
  return { button, problem: save.error === null ? null : <ProblemNotice error={save.error} /> };
}
