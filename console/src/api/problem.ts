/** A failed request as the page shows it. */
export interface Problem {
  /** HTTP status; 0: no answer. */
  status: number;
  code: string;
  message: string;
  /** The field that is wrong. */
  param: string | null;
  request_id: string | null;
  metadata: Record<string, unknown>;
  /** Seconds until a retry can succeed. */
  retry_after_s: number | null;
}

/** A request failed. */
export class ApiError extends Error {
  readonly problem: Problem;
  constructor(problem: Problem) {
    super(problem.message);
    this.name = "ApiError";
    this.problem = problem;
  }
  static unreachable(): ApiError {
    return new ApiError(
      localProblem(
        "unreachable",
        "The service cannot be reached. Check that it is running and that you are connected; then try again.",
      ),
    );
  }
}

const localProblem = (code: string, message: string): Problem => ({
  status: 0,
  code,
  message,
  param: null,
  request_id: null,
  metadata: {},
  retry_after_s: null,
});

/** The messages of these codes are for programs: they name fields, headers and addresses of the API. */
const FOR_PEOPLE: Record<string, string | undefined> = {
  action_already_decided: "This was decided before, or its time is over. This page now shows what holds.",
  arguments_changed: "The call has changed since this page showed it. Look at it again before you decide.",
  run_not_waiting: "The run no longer waits, so there is nothing to decide.",
  agent_disabled: "This agent is disabled. Edit the agent to enable it.",
  missing_api_key: "You are signed out. Sign in again.",
  password_confirmation_required: "Confirm your password first. Try again to enter it.",
  overage_unpaid: "An overage invoice is unpaid. Pay it first: the tab Payments lists it.",
};

const NO_TASK = "The agent has no task. Edit the agent, and enter the “Task of each run”.";

/** A sentence of a message that names a request: "POST /api/v1/secrets stores one." */
const NAMES_A_REQUEST = / [A-Z]+ \/api\/v1\/[^ ]+ (lists|makes|stores) (it|one|them|those)\./;

/** The message as a person reads it, who does not see the headers of an answer. */
function forPeople({ code = "", param, message }: Partial<Problem>): string | undefined {
  const text = code === "missing_field" && param === "run_prompt" ? NO_TASK : (FOR_PEOPLE[code] ?? message);
  return text
    ?.replace(/^Too many requests\./, "You have sent too many requests in a short time.")
    .replace(NAMES_A_REQUEST, "")
    .replace(
      /^allowed_hosts allows more hosts\..*/,
      "More hosts can get this secret now. To confirm that, enter its value.",
    )
    .replace("Raise limits.max_cost_tokens_per_month:", "Raise the agent's “Tokens per month”:")
    .replace("Or reject the action.", "Or stop the run.")
    .replace("Give an amount_tokens of at least", "Enter at least")
    .replace("Give a later instant, or null for none.", "Choose a later day.")
    .replace("Retry after the time in Retry-After.", "Wait a moment, then try again.");
}

/** The problem that a failed answer describes. */
export async function problemOf(response: Response): Promise<Problem> {
  const body = (await response.json().catch(() => null)) as { error?: Partial<Problem> } | null;
  const sent = body?.error ?? {};
  const retry_after_s = Number(response.headers.get("Retry-After") ?? Number.NaN);
  return {
    status: response.status,
    code: sent.code ?? String(response.status),
    message: forPeople(sent) ?? `The service answered ${response.status}. Try again in a moment.`,
    param: sent.param ?? null,
    request_id: sent.request_id ?? response.headers.get("X-Request-Id"),
    metadata: sent.metadata ?? {},
    retry_after_s: Number.isFinite(retry_after_s) ? Math.ceil(retry_after_s) : null,
  };
}

/** Any thrown value as a problem. */
export function asProblem(thrown: unknown): Problem {
  if (thrown instanceof ApiError) return thrown.problem;
  return localProblem("console", thrown instanceof Error ? thrown.message : String(thrown));
}
