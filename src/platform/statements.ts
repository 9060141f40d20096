import type { Sql } from "./db.ts";

/** Parts of SQL statements that several stores have. */

/** Conditions for filters that may be absent. Their values are added to `values`, the parameters of the statement. */
export function createConditions(values: unknown[], first = "true") {
  const conditions = [first];
  return {
    add(condition: string): void {
      conditions.push(condition);
    },
    /** Adds `condition` followed by the value; nothing for an absent filter. */
    only(condition: string, value: string | number | null | undefined): void {
      if (value !== undefined && value !== null) conditions.push(`${condition} $${values.push(value)}`);
    },
    text: () => conditions.join(" and "),
  };
}

/** The hashes of `selectByHash` as rows of a statement. */
export const GIVEN_HASHES = "jsonb_array_elements_text($1::jsonb) with ordinality as given(hash, nth)";

/**
 * The row of each hash, in their order; undefined for a hash without one. The statement reads `GIVEN_HASHES`, whose
 * `hash` is in hexadecimal, and returns `nth` as an integer.
 */
export async function selectByHash<Row extends object>(
  sql: Sql,
  statement: { name?: string; text: string },
  hashes: readonly Buffer[],
): Promise<(Row | undefined)[]> {
  const values = [JSON.stringify(hashes.map((hash) => hash.toString("hex")))];
  const rows = await sql.query<Row & { nth: number }>({ ...statement, values });
  const found = new Map(rows.map(({ nth, ...row }) => [nth, row as unknown as Row]));
  return hashes.map((_, index) => found.get(index + 1));
}
