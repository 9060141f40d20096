import { conflict, failure } from "../../kernel/purser-error.ts";

/** Errors of tools that a caller tries. */
export const toolErrors = {
  toolDisabled: (tool: string) =>
    conflict("tool_disabled", `The agent's tool ${tool} is off. Set tools_config.${tool}.enabled to true first.`),
  /** `error` is that of a run's step, with a sentence of our own. */
  serverUnusable: ({ code, message }: { code: string; message: string }) =>
    failure({ status: 502, type: "api_error", code, message: `${message[0]?.toUpperCase()}${message.slice(1)}.` }),
  /** `message` names the secret, and says that it is out of use. */
  secretReflected: (message: string) => failure({ status: 502, type: "api_error", code: "secret_reflected", message }),
};
