/** Readers of the address's search part: what is not understood is left out, so that no address breaks a page. */

type Search = Record<string, unknown>;

export function choice<const Name extends string, const Option extends string | number>(
  search: Search,
  name: Name,
  options: readonly Option[],
): { [N in Name]?: Option } {
  const found = options.find((option) => option === search[name]);
  return (found === undefined ? {} : { [name]: found }) as { [N in Name]?: Option };
}

export function text<const Name extends string>(search: Search, name: Name): { [N in Name]?: string } {
  const value = search[name];
  const found = typeof value === "string" || typeof value === "number" ? String(value) : "";
  return (found === "" ? {} : { [name]: found }) as { [N in Name]?: string };
}

export function whole<const Name extends string>(search: Search, name: Name): { [N in Name]?: number } {
  const value = search[name];
  return (Number.isSafeInteger(value) ? { [name]: value } : {}) as { [N in Name]?: number };
}

export function flag<const Name extends string>(search: Search, name: Name): { [N in Name]?: true } {
  return (search[name] === true ? { [name]: true } : {}) as { [N in Name]?: true };
}
