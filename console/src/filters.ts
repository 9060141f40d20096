/** The filters of a list, in the address of its page. */

/** The filters that are chosen. */
export const chosenFilters = <Value>(filters: Record<string, Value>): Record<string, Value> =>
  Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== undefined));

/** Changes the address's search: an empty value removes the filter. */
export const withFilter = (name: string, value: string) => (search: object) =>
  ({ ...search, [name]: value === "" ? undefined : value }) as never;
