/**
 * Fields as one run of bytes that no other fields give: each after its length (4 bytes, big endian), so that nothing
 * can move from one field into the next. Text is UTF-8.
 */
export function lengthPrefixed(fields: readonly (string | Uint8Array)[]): Buffer {
  return Buffer.concat(
    fields.flatMap((field) => {
      const bytes = typeof field === "string" ? Buffer.from(field) : field;
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      return [length, bytes];
    }),
  );
}
