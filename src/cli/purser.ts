import { RELEASE } from "../platform/lib/release.ts";
import { type Command, didYouMean, getHelp, helpOfCommand, MisuseError, readCall, say } from "./command.ts";
import { COMMANDS } from "./commands.ts";

/** `purser COMMAND`: finds the command, prints its help, and turns errors into exit codes. 2: called wrongly; 1: failed. */

/** Errors of settings. They are compared by name, because their modules load only with a command. */
const SETTING_ERRORS: ReadonlySet<string> = new Set([
  "ConfigError",
  "KeyringError",
  "MisuseError",
  "NotificationsLostError",
]);

const HELP: ReadonlySet<string> = new Set(["help", "--help", "-h"]);

async function run([name, ...args]: readonly string[]): Promise<number> {
  if (name === undefined) {
    process.stdout.write(getHelp(COMMANDS));
    return 2;
  }
  if (name === "--version") {
    say(`purser ${RELEASE}`);
    return 0;
  }
  if (HELP.has(name)) {
    if (args[0] !== undefined && !HELP.has(args[0])) return run([args[0], "--help"]);
    process.stdout.write(getHelp(COMMANDS));
    return 0;
  }
  const command: Command | undefined = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) {
    const near = didYouMean(name, Object.keys(COMMANDS));
    throw new MisuseError(`purser has no command ${JSON.stringify(name)}${near}; purser --help lists the commands`);
  }
  const call = readCall(name, command, args);
  if (call.options.help !== undefined) {
    process.stdout.write(helpOfCommand(name, command));
    return 0;
  }
  return (await command.load())(call);
}

// The reader of a pipe has ended, such as head: no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

run(process.argv.slice(2)).then(
  // A database's worker thread must not keep the process.
  (code) => process.exit(code),
  (error: Error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(SETTING_ERRORS.has(error.name) ? 2 : 1);
  },
);
