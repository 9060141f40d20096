/** A JSON value, indented. */
export function Json({ value, label }: { value: unknown; label: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls long values
    <section aria-label={label} tabIndex={0} className="max-h-96 overflow-auto rounded-lg bg-sunken p-3">
      <pre className="font-mono text-sm wrap-anywhere whitespace-pre-wrap">{JSON.stringify(value, null, 2)}</pre>
    </section>
  );
}
