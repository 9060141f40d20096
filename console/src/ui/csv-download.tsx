import { useMutation } from "@tanstack/react-query";
import { addressOf, download } from "../api/client.ts";
import { Button } from "./basics.tsx";
import { ProblemNotice } from "./problem.tsx";
import { confirmSaved } from "./saved.tsx";

/** The button at the end of a list's filters that downloads what they find, and the notice if that failed. */
export function useCsvDownload(
  path: string,
  { filters, file, saved }: { filters: object; file: string; saved: string },
) {
  const save = useMutation({
    mutationFn: () => download(addressOf(path, {}, { ...filters, format: "csv" }), file),
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
