import { readStatement } from "../platform/sql-functions.ts";

/** Statements that call functions of several modules. Each file explains the reason and the order. */

/** Applies a batch of the ledger together with steps of runs. */
export const APPLY_WITH_STEPS = readStatement(import.meta.dirname, "apply-with-steps");

/** Decides which run-nows may begin. */
export const RUN_NOW_STATEMENTS = {
  refuse: readStatement(import.meta.dirname, "refuse-run-nows"),
  begin: readStatement(import.meta.dirname, "begin-run-nows"),
};
