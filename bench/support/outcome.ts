/** The result of a benchmark: tables for people, ratios to its peers, and the same as one JSON line. */
export interface Outcome {
  /** As given on the command line. */
  name: string;
  title: string;
  tables: Table[];
  ratios: Ratio[];
}

export interface Table {
  caption: string;
  columns: readonly string[];
  rows: { name: string; values: readonly number[] }[];
  /** Columns that are drawn, one picture each. */
  drawn?: readonly number[];
}

/** A figure divided by that of a peer or a limit from the same run. */
export interface Ratio {
  of: string;
  to: string;
  value: number;
  /** The project's goal, such as "≥ 2". */
  goal: string;
}

/** How long and how often to measure. */
export interface Effort {
  rounds: number;
  /** Factor on every duration and size; 1 is a full run. */
  scale: number;
  /** Also measure the programs of others that have to be installed first. */
  peers: boolean;
  /** A folder of labelled pages (`dev.jsonl`) for benchmarks that need pages; null for none. */
  data: string | null;
}
