import { readStatement } from "../platform/sql-functions.ts";

/** Statements that call functions of several modules. Each says in its file why, and in which order. */

/** A batch of the ledger with the steps of runs. */
export const APPLY_WITH_STEPS = readStatement(import.meta.dirname, "apply-with-steps");

/** Who may begin a run-now. */
export const RUN_NOW_STATEMENTS = {
  refuse: readStatement(import.meta.dirname, "refuse-run-nows"),
  begin: readStatement(import.meta.dirname, "begin-run-nows"),
};
