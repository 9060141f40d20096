/** JSON objects in text fields. */

/** The fault of typed JSON that must be an object, as a sentence; null: none. An empty field has none. */
export function wrongObject(typed: string): string | null {
  if (typed.trim() === "") return null;
  try {
    const value: unknown = JSON.parse(typed);
    const is_object = typeof value === "object" && value !== null && !Array.isArray(value);
    return is_object ? null : 'Enter a JSON object, such as {"city": "Oslo"}.';
  } catch (error) {
    return `This is not JSON: ${(error as Error).message}.`;
  }
}

/** A typed object; null: the field is empty. */
export const objectOf = (typed: string): Record<string, unknown> | null =>
  typed.trim() === "" ? null : (JSON.parse(typed) as Record<string, unknown>);

/** An object as the text of a field. */
export const objectText = (value: object | null): string => (value === null ? "" : JSON.stringify(value, null, 2));
