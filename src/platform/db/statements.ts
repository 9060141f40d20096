import type { Sql, Statement, Tx } from "./db.ts";

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

/** Punctuation separates words, so that 0042 finds INV-0042, and example finds example.com. */
const SEPARATORS = "'-_/.:@+<>&', '          '";

/** The words of a text with the row's user, as an expression that an index has: a search then reads no other user's rows. */
export const wordsOf = (text: string): string =>
  `(to_tsvector('simple', translate(${text}, ${SEPARATORS})) || array_to_tsvector(array[user_id::text]))`;

/** Whether `words` are of a user and have all words of a text. `user_id` and `q` are parameters of the statement. */
export const haveWords = (words: string, { user_id, q }: { user_id: string; q: string }): string =>
  `${words} @@ (('''' || ${user_id}::text || '''')::tsquery && plainto_tsquery('simple', translate(${q}, ${SEPARATORS})))`;

/** The first row of the result; undefined when there is none. */
export async function firstRow<Row>(sql: Sql, statement: Statement): Promise<Row | undefined> {
  const [row] = await sql.query<Row>(statement);
  return row;
}

/** The row of a statement that always has one. Throws when there is none. */
export async function oneRow<Row>(sql: Sql, statement: Statement): Promise<Row> {
  const row = await firstRow<Row>(sql, statement);
  if (row === undefined) throw new Error(`a statement has no row: ${statement.name ?? statement.text}`);
  return row;
}

/**
 * Inserts a row. Columns of undefined fields get their defaults. `end` is the end of the statement, such as
 * `returning id`. The driver would write a list as an array: give a list for a jsonb column as text.
 */
export function insertInto<Row extends object>(table: string, row: Row, end = ""): Statement {
  const given = givenFields(row);
  const columns = given.map(([column]) => quoted(column));
  const parameters = given.map((_, index) => `$${index + 1}`);
  return {
    text: `insert into ${table} (${columns.join(", ")}) values (${parameters.join(", ")}) ${end}`,
    values: given.map(([, value]) => value),
  };
}

/**
 * The assignments of an update whose columns are chosen at run time. Columns of undefined fields keep their values. Adds
 * the new values to `values`, the parameters of the statement.
 */
export function assignments<Row extends object>(values: unknown[], fields: Row): string {
  return givenFields(fields)
    .map(([column, value]) => `${quoted(column)} = $${values.push(value)}`)
    .join(", ");
}

const givenFields = (fields: object) => Object.entries(fields).filter(([, value]) => value !== undefined);
const quoted = (column: string) => `"${column.replaceAll('"', '""')}"`;

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

/** Serialises the inserts of a user into a table until the transaction ends, so that none of them exceeds a limit. */
export async function lockInserts(tx: Tx, table: string, user_id: string): Promise<void> {
  await tx.query({ text: "select pg_advisory_xact_lock(hashtextextended($1, 7))", values: [`${table} ${user_id}`] });
}

/**
 * Whether the user has more than `most` rows of the table that meet the condition, whose `values` are $3 and more. Call it after an insert, in its
 * transaction: of two concurrent inserts at the limit, the second one exceeds it.
 */
export async function hasMoreRows(
  tx: Tx,
  {
    table,
    user_id,
    where = "true",
    values = [],
    most,
  }: { table: string; user_id: string; where?: string; values?: readonly unknown[]; most: number },
): Promise<boolean> {
  await lockInserts(tx, table, user_id);
  const beyond = await tx.query({
    text: `select 1 as beyond from ${table} where user_id = $1 and ${where} offset $2 limit 1`,
    values: [user_id, most, ...values],
  });
  return beyond.length > 0;
}

/** Deletes all but the newest `most` rows of each user. The table has a `user_id`, and its `id` grows with time. */
export async function deleteBeyondNewest(sql: Sql, table: string, most: number): Promise<void> {
  await sql.query({
    text: `delete from ${table} using (
        select user_id, (
          select id from ${table} newer where newer.user_id = crowded.user_id order by id desc offset $1 - 1 limit 1
        ) as oldest_kept
        from (select user_id from ${table} group by user_id having count(*) > $1) as crowded
      ) as kept
      where ${table}.user_id = kept.user_id and ${table}.id < kept.oldest_kept`,
    values: [most],
  });
}
