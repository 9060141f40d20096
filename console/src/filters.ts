import { useNavigate } from "@tanstack/react-router";

/** The filters of a list, in the address of its page. */

/** The filters that are chosen. */
export const chosenFilters = <Value>(filters: Record<string, Value>): Record<string, Value> =>
  Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== undefined));

/** Changes one filter of the page; an empty value removes it. */
export function useFilterSetter(): (name: string) => (value: string | number) => void {
  const navigate = useNavigate();
  return (name) => (value) => {
    const search = (old: object) => ({ ...old, [name]: value === "" ? undefined : value }) as never;
    void navigate({ to: ".", search, replace: true, resetScroll: false });
  };
}
