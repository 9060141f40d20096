/**
 * A setting the service cannot start with. The message is one line: the variable, what is wrong, what is accepted.
 * It never holds the value of a secret. The process prints it and exits 2.
 */
export class ConfigError extends Error {
  constructor(variable: string, problem: string, accepted: string) {
    super(`${variable}: ${problem}; accepted: ${accepted}`.replaceAll(/\s*[\r\n]+\s*/g, " "));
    this.name = "ConfigError";
  }
}
