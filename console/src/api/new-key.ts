/** A new API key on its way from the dialog that shows it once to the page Connect. Only the tab's memory holds it. */

let new_key: string | null = null;

export const newKey = (): string | null => new_key;

export function rememberKey(key: string): void {
  new_key = key;
}

export function forgetKey(): void {
  new_key = null;
}
