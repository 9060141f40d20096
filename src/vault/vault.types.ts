import type { Tx } from "../platform/db.ts";
import type { SecretValue } from "../platform/secret-value.ts";

/** Who wants to use a secret, and for what. */
export interface SecretUsage {
  readonly agent_id: string | null;
  readonly run_id: string | null;
  /** `web_fetch`, `send_webhook`, `mcp`. */
  readonly tool: string;
  /** Where it is to be sent; of it the host alone is kept. */
  readonly url: URL;
}

/** A secret as a tool gets it. */
export interface OpenedSecret {
  readonly id: string;
  readonly name: string;
  readonly version: number;
  /** Where it may be sent at most, redirects too; null: wherever the user's tools_config binds it. */
  readonly allowed_hosts: readonly string[] | null;
  readonly value: SecretValue;
}

/** What came of opening one. All but `not_found` is in the log of its uses. */
export type Opening =
  | { readonly status: "opened"; readonly secret: OpenedSecret }
  | { readonly status: "not_found" }
  /** Its allowed_hosts do not include the host. */
  | { readonly status: "host_refused" }
  /** A site sent it back, and its value has not changed since. */
  | { readonly status: "reflected" }
  /** Its row, or another of the user's, is not as the vault left it. */
  | { readonly status: "unreadable" };

/** A secret that a site sent back. */
export interface Reflection {
  readonly user_id: string;
  readonly id: string;
  readonly name: string;
  readonly version: number;
  readonly run_id: string | null;
}

export type OnReflected = (reflection: Reflection, tx: Tx) => Promise<void>;
