/** A change to a valid body (undefined takes a field out), and the error that it deserves. */
export type BadBody = readonly [change: Record<string, unknown>, code: string, param: string];

export interface BodyRow {
  valid: Record<string, unknown>;
  bad: BadBody[];
  /** Fields that the schema does not know pass on to the model's provider: here alone (contract 2). */
  open?: true;
}

export const invalid = (param: string, ...values: unknown[]): BadBody[] =>
  values.map((value) => [{ [param]: value }, "invalid_value", param]);
export const missing = (...fields: string[]): BadBody[] =>
  fields.map((name) => [{ [name]: undefined }, "missing_field", name]);
/** Instants that are well written and yet beyond what can be stored. */
export const UNSTORABLE = ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"];
