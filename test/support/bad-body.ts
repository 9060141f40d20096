/** A change to a valid body (undefined removes a field), and the expected error. */
export type BadBody = readonly [change: Record<string, unknown>, code: string, param: string];

export interface BodyRow {
  valid: Record<string, unknown>;
  bad: BadBody[];
  /** Only here, fields that the schema does not know pass to the model's provider (contract 2). */
  open?: true;
}

export const invalid = (param: string, ...values: unknown[]): BadBody[] =>
  values.map((value) => [{ [param]: value }, "invalid_value", param]);
export const missing = (...fields: string[]): BadBody[] =>
  fields.map((name) => [{ [name]: undefined }, "missing_field", name]);
/** Well-formed instants that are too large to be stored. */
export const UNSTORABLE = ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"];
