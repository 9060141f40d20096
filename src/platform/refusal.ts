/**
 * Whether the database judged the statement (an SQLSTATE), rather than a deadlock, being out of reach or full, letting
 * nobody in, or being a standby that has not taken over yet. The system's own errors may look alike (EPIPE).
 */
export function isRefusal(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^(?!08|25006|28|3D|40|53|55000|57|58|E)[0-9A-Z]{5}$/.test(code);
}
