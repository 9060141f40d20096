import { type Call, type Command, MisuseError } from "./command.ts";

type Commands = Readonly<Record<string, Command>>;

const SHELLS: Readonly<Record<string, (commands: Commands) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

/** `purser completion SHELL`: a script that completes `commands`, their options, and files. */
export function createCompletion(commands: Commands): (call: Call) => Promise<number> {
  return async ({ argument = "" }) => {
    const script = Object.hasOwn(SHELLS, argument) ? SHELLS[argument] : undefined;
    if (script === undefined) {
      const shells = Object.keys(SHELLS).join(", ");
      throw new MisuseError(`there is no completion for ${JSON.stringify(argument)}: there are ${shells}`);
    }
    process.stdout.write(script(commands));
    return 0;
  };
}

const optionsOf = ({ options }: Command) => [...Object.keys(options), "help"].map((option) => `--${option}`);

/** What follows each command: its options; after `help` the commands, after `completion` the shells. */
function wordsAfter(commands: Commands): [name: string, words: string[]][] {
  const after = Object.entries(commands).map(([name, command]): [string, string[]] => [
    name,
    name === "completion" ? Object.keys(SHELLS) : optionsOf(command),
  ]);
  return [...after, ["help", Object.keys(commands)]];
}

function bashScript(commands: Commands): string {
  return `_purser() {
  local word="\${COMP_WORDS[COMP_CWORD]}" words
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="${Object.keys(commands).join(" ")} help --help --version"
  else
    case "\${COMP_WORDS[1]}" in
${wordsAfter(commands)
  .map(([name, words]) => `      ${name}) words="${words.join(" ")}" ;;`)
  .join("\n")}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _purser purser
`;
}

function zshScript(commands: Commands): string {
  const quote = (text: string) => `'${text.replaceAll("'", "'\\''").replaceAll(":", "\\:")}'`;
  const described = Object.entries(commands).map(([name, { summary }]) => `    ${quote(name)}:${quote(summary)}`);
  return `#compdef purser
_purser() {
  local -a commands
  commands=(
${described.join("\n")}
    'help:Shows the help of a command.'
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case "$words[2]" in
${wordsAfter(commands)
  .map(([name, words]) => `    ${name}) compadd -- ${words.join(" ")} ;;`)
  .join("\n")}
  esac
  _files
}
compdef _purser purser
`;
}

function fishScript(commands: Commands): string {
  const quote = (text: string) => `'${text.replaceAll("'", "\\'")}'`;
  const names = Object.entries(commands).map(
    ([name, { summary }]) => `complete -c purser -n __fish_use_subcommand -a ${name} -d ${quote(summary)}`,
  );
  const options = Object.entries(commands).flatMap(([name, command]) =>
    Object.entries(command.options).map(
      ([option, { help, value }]) =>
        `complete -c purser -n '__fish_seen_subcommand_from ${name}' -l ${option}${value === undefined ? "" : " -r"} -d ${quote(help)}`,
    ),
  );
  return `${[
    ...names,
    "complete -c purser -n __fish_use_subcommand -a help -d 'Shows the help of a command.'",
    `complete -c purser -n '__fish_seen_subcommand_from help' -f -a '${Object.keys(commands).join(" ")}'`,
    `complete -c purser -n '__fish_seen_subcommand_from completion' -f -a '${Object.keys(SHELLS).join(" ")}'`,
    ...options,
  ].join("\n")}\n`;
}
