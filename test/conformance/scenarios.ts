/** The scenarios of the MCP project's suite that Purser does not pass, with the reason. All others must pass. */

const NO_PERSON = "asks a person during a call; a run has none, so Purser declares no elicitation and the call fails";

const CLIENT_EXCEPTIONS: Readonly<Record<string, string>> = {
  "elicitation-sep1034-client-defaults": NO_PERSON,
  "sep-2322-client-request-state": NO_PERSON,
  "auth/scope-step-up":
    "wants more rights in the middle of a run, which a person must grant on the sign-in page; the owner connects again",
};

/** The reason for a client scenario, or null if it must pass. */
export function clientException(scenario: string): string | null {
  if (scenario === "auth/wif-jwt-bearer") return "an extension for a platform's own token; a run acts for its owner";
  if (/^auth\/(dpop|enterprise)/.test(scenario)) return "an extension that Purser does not have";
  return CLIENT_EXCEPTIONS[scenario] ?? null;
}

const NONE = (what: string) => `Purser has no ${what}`;
const SUITES_TOOLS = "calls a tool of the suite's own server; Purser's tools are the agents of the key";

const SERVER_EXCEPTIONS: Readonly<Record<string, string>> = {
  "tasks-lifecycle": "wants a task that ends with an error of the protocol; a run that fails is a result that says so",
  "tasks-request-headers": "wants the words of the suite's own tool greet in one of its five checks",
  "tasks-required-task-error":
    "wants a tool that only clients with the extension can call; every client can call an agent",
  "tasks-mrtr-composition": "wants a tool that asks before it begins; an agent's run asks in the middle",
};

/** The reason for a server scenario, or null if it must pass. */
export function serverException(scenario: string): string | null {
  if (/^(tools-call-(?!simple|error)|input-required|elicitation)|polling|server-stateless/.test(scenario)) {
    return SUITES_TOOLS;
  }
  if (/^(resources|sep-2164|caching)/.test(scenario)) return NONE("resources");
  if (scenario.startsWith("prompts")) return NONE("prompts");
  if (scenario.startsWith("completion")) return NONE("completion of arguments");
  if (scenario.startsWith("logging")) return NONE("logging level");
  if (/^json-schema-2020-12|custom-header/.test(scenario)) return SUITES_TOOLS;
  return SERVER_EXCEPTIONS[scenario] ?? null;
}
