/** What went wrong, as the page shows it. */
export interface Problem {
  /** HTTP status; 0 when no answer came. */
  status: number;
  code: string;
  message: string;
  /** The field that is at fault. */
  param: string | null;
  request_id: string | null;
  metadata: Record<string, unknown>;
}

/** A request that did not succeed. */
export class ApiError extends Error {
  readonly problem: Problem;
  constructor(problem: Problem) {
    super(problem.message);
    this.name = "ApiError";
    this.problem = problem;
  }
  static unreachable(): ApiError {
    const message =
      "The service cannot be reached. Check that it is running and that you are connected; then try again.";
    return new ApiError({ status: 0, code: "unreachable", message, param: null, request_id: null, metadata: {} });
  }
}

/** The problem in an answer that is not a success. */
export async function problemOf(response: Response): Promise<Problem> {
  const body = (await response.json().catch(() => null)) as { error?: Partial<Problem> } | null;
  const told = body?.error ?? {};
  return {
    status: response.status,
    code: told.code ?? String(response.status),
    message: told.message ?? `The service answered ${response.status}. Try again in a moment.`,
    param: told.param ?? null,
    request_id: told.request_id ?? response.headers.get("X-Request-Id"),
    metadata: told.metadata ?? {},
  };
}

/** Anything thrown, as a problem. */
export function asProblem(thrown: unknown): Problem {
  if (thrown instanceof ApiError) return thrown.problem;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return { status: 0, code: "console", message, param: null, request_id: null, metadata: {} };
}
