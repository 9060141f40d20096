/** JSON in text fields. */

/** The fault of typed JSON that must be an object, as a sentence; null: none. An empty field has none. */
export function wrongObject(typed: string): string | null {
  const wrong = wrongJson(typed);
  if (wrong !== null || typed.trim() === "") return wrong;
  const value: unknown = JSON.parse(typed);
  const is_object = typeof value === "object" && value !== null && !Array.isArray(value);
  return is_object ? null : 'Enter a JSON object, such as {"city": "Oslo"}.';
}

/** The fault of typed JSON, as a sentence; null: none. An empty field has none. */
export function wrongJson(typed: string): string | null {
  try {
    if (typed.trim() !== "") JSON.parse(typed);
    return null;
  } catch (error) {
    return `This is not JSON: ${(error as Error).message}.`;
  }
}

/** A typed object; null: the field is empty. */
export const objectOf = (typed: string): Record<string, unknown> | null =>
  typed.trim() === "" ? null : (JSON.parse(typed) as Record<string, unknown>);

/** An object as the text of a field. */
export const objectText = (value: object | null): string => (value === null ? "" : JSON.stringify(value, null, 2));
