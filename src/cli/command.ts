import { parseArgs } from "node:util";
import { nearestNames } from "../kernel/nearest.ts";

/** One option of a command. `value` names its value in the help; without it, the option is a switch. */
interface Option {
  readonly value?: string;
  readonly help: string;
}

/** The options and the argument of a call, as texts. A switch that is set is "". */
export interface Call {
  readonly options: Readonly<Record<string, string | undefined>>;
  readonly argument: string | undefined;
  /** All arguments, if the command takes several. */
  readonly files: readonly string[];
}

/** A command of `purser`. `run` resolves to the exit code. */
export interface Command {
  readonly summary: string;
  /** Further lines of the help. */
  readonly about?: string;
  /** The name of the argument in the help. Without it, the command takes none. */
  readonly argument?: string;
  /** With this option, the command takes any number of further files. */
  readonly more_files_with?: string;
  readonly options: Readonly<Record<string, Option>>;
  readonly example: string;
  /** What each exit code says. */
  readonly exits: Readonly<Record<number, string>>;
  readonly load: () => Promise<(call: Call) => Promise<number>>;
}

/** The command was called wrongly: exit 2. The message says what exists. */
export class MisuseError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "MisuseError";
  }
}

const MISUSE = "called wrongly, or a setting cannot be used";

/** The help of all commands. */
export function getHelp(commands: Readonly<Record<string, Command>>): string {
  const width = Math.max(...Object.keys(commands).map((name) => name.length));
  const lines = Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`);
  return [
    "Usage: purser COMMAND [OPTIONS]",
    "",
    "Commands:",
    ...lines,
    "",
    "purser help COMMAND shows the options of a command, an example and its exit codes.",
    "purser --version prints the version.",
    "Settings are environment variables: docs/operating/README.md lists them.",
    "",
  ].join("\n");
}

/** The help of one command. */
export function helpOfCommand(name: string, command: Command): string {
  const { summary, about, argument, example } = command;
  const options = { ...command.options, help: { help: "shows this text" } };
  const labels = Object.entries(options).map(([option, { value, help }]: [string, Option]) => ({
    label: value === undefined ? `--${option}` : `--${option} ${value}`,
    help,
  }));
  const width = Math.max(...labels.map(({ label }) => label.length));
  const exits = { ...command.exits, 2: command.exits[2] ?? MISUSE };
  return [
    `Usage: purser ${name}${argument === undefined ? "" : ` ${argument}`} [OPTIONS]`,
    "",
    summary,
    ...(about === undefined ? [] : ["", about]),
    "",
    "Options:",
    ...labels.map(({ label, help }) => `  ${label.padEnd(width)}  ${help}`),
    "",
    "Example:",
    `  ${example}`,
    "",
    "Exit codes:",
    ...Object.entries(exits).map(([code, text]) => `  ${code}  ${text}`),
    "",
  ].join("\n");
}

/** Reads the options of `name` from its arguments. Throws a MisuseError that names the fault and what exists. */
export function readCall(name: string, command: Command, args: readonly string[]): Call {
  const known: Record<string, Option> = { ...command.options, help: { help: "" } };
  const see = `purser ${name} --help shows the options`;
  const options = Object.fromEntries(
    Object.entries(known).map(([option, { value }]) => [
      option,
      { type: value === undefined ? ("boolean" as const) : ("string" as const) },
    ]),
  );
  const long = args.map((arg) => (arg === "-h" ? "--help" : arg));
  const { tokens } = parseArgs({ args: long, options, strict: false, allowPositionals: true, tokens: true });
  const given: Record<string, string> = {};
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === "positional") positionals.push(token.value);
    if (token.kind !== "option") continue;
    const option = known[token.name];
    if (option === undefined) {
      const names = Object.keys(known);
      throw new MisuseError(
        `${token.rawName} is no option of purser ${name}${didYouMean(token.name, names, "--")}; ${see}`,
      );
    }
    if (option.value !== undefined && !token.value) {
      throw new MisuseError(`--${token.name} needs a value: --${token.name} ${option.value}; ${see}`);
    }
    if (option.value === undefined && token.value !== undefined) {
      throw new MisuseError(`--${token.name} takes no value; ${see}`);
    }
    if (given[token.name] !== undefined) throw new MisuseError(`--${token.name} is given twice; ${see}`);
    given[token.name] = token.value ?? "";
  }
  if (command.more_files_with !== undefined && given[command.more_files_with] !== undefined) {
    return { options: given, argument: undefined, files: [given[command.more_files_with] ?? "", ...positionals] };
  }
  const most = command.argument === undefined ? 0 : 1;
  const [argument, extra] = most === 0 ? [undefined, positionals[0]] : positionals;
  if (extra !== undefined) throw new MisuseError(`${JSON.stringify(extra)} is one argument too many; ${see}`);
  if (most === 1 && argument === undefined && given.help === undefined) {
    throw new MisuseError(`purser ${name} needs ${command.argument}; ${see}`);
  }
  return { options: given, argument, files: [] };
}

/** ", did you mean …" with the nearest name; otherwise the names that exist. */
export function didYouMean(wanted: string, names: readonly string[], prefix = ""): string {
  const [nearest] = nearestNames(wanted, names);
  if (nearest !== undefined) return `: did you mean ${prefix}${nearest}?`;
  return `: there are ${names.map((name) => `${prefix}${name}`).join(", ")}`;
}

/** Writes a line of progress or a result. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
