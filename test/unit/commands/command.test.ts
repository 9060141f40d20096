import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { getHelp, helpOfCommand, readCall } from "../../../src/cli/command.ts";
import { COMMANDS } from "../../../src/cli/commands.ts";
import { describeStorage } from "../../../src/cli/storage.ts";
import { RELEASE } from "../../../src/platform/lib/release.ts";
import { runPurser } from "../../support/process.ts";

const commandOf = (name: string) => {
  const command = COMMANDS[name];
  if (command === undefined) throw new Error(`no command ${name}`);
  return command;
};
const call = (line: string) => {
  const [name = "", ...args] = line.split(" ");
  return () => readCall(name, commandOf(name), args);
};

describe("the help", () => {
  it("of purser lists every command", () => {
    expect(Object.keys(COMMANDS).filter((name) => !getHelp(COMMANDS).includes(`  ${name} `))).toEqual([]);
  });

  it.each(Object.keys(COMMANDS))("of %s has usage, options, an example that can be called, and exit codes", (name) => {
    const command = commandOf(name);
    const help = helpOfCommand(name, command);
    expect(help).toMatch(new RegExp(`^Usage: purser ${name}`));
    for (const part of ["Options:", "--help", "Example:", "Exit codes:", "  0  ", "  2  "])
      expect(help).toContain(part);
    const [, args = ""] = command.example.split(`purser ${name}`);
    const words = (args.match(/'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll("'", ""));
    expect(() => readCall(name, command, words)).not.toThrow();
  });
});

it.each([
  ["--version", `purser ${RELEASE}\n`],
  ["-h", getHelp(COMMANDS)],
  ["help", getHelp(COMMANDS)],
  ["help backup", helpOfCommand("backup", commandOf("backup"))],
  ["backup -h", helpOfCommand("backup", commandOf("backup"))],
  ["help help", getHelp(COMMANDS)],
])("purser %s prints its text and exits with 0", async (line, text) => {
  expect(await runPurser(line.split(" "))).toMatchObject({ code: 0, stdout: text, stderr: "" });
});

describe("completion in bash", () => {
  it.each([
    ["purser cre", "create-user"],
    ["purser grant --to", "--tokens"],
    ["purser help res", "restore"],
    ["purser completion z", "zsh"],
  ])("completes %s to %s", async (line, completed) => {
    const { stdout } = await runPurser(["completion", "bash"]);
    const words = line.split(" ");
    const script = `${stdout}\nCOMP_WORDS=(${words.join(" ")}) COMP_CWORD=${words.length - 1}; _purser; echo "\${COMPREPLY[*]}"`;
    expect(execFileSync("bash", ["-c", script], { encoding: "utf8" })).toBe(`${completed}\n`);
  });

  it("is refused for a shell that it does not know", async () => {
    expect(await runPurser(["completion", "tcsh"])).toMatchObject({
      code: 2,
      stderr: 'there is no completion for "tcsh": there are bash, zsh, fish\n',
    });
  });
});

describe("a wrong call of a command", () => {
  it.each([
    ["audit --verfy x.csv", "--verfy is no option of purser audit: did you mean --verify?"],
    ["audit --verify", "--verify needs a value: --verify FILE"],
    ["start --check=yes", "--check takes no value"],
    ["audit --verify a --verify b", "--verify is given twice"],
    ["audit x.csv", '"x.csv" is one argument too many'],
    ["grant --tokens 5", "purser grant needs EMAIL_OR_ID"],
    ["migrate --zzzz", "--zzzz is no option of purser migrate: there are --help"],
  ])("%s: names the fault and the valid names", (line, message) => {
    expect(call(line)).toThrow(message);
  });

  it("exits with 2 for an unknown command and names the nearest one", async () => {
    const { code, stderr } = await runPurser(["adit"]);
    expect([code, stderr]).toEqual([
      2,
      'purser has no command "adit": did you mean audit?; purser --help lists the commands\n',
    ]);
  });

  it("exits with 2 for an unknown option of npm start, before it starts anything", async () => {
    const { code, stdout, stderr } = await runPurser(["start", "--chek"], { PORT: "0" });
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("did you mean --check?");
  });
});

it.each([
  ["postgres://ada:secret@db.example:5432/purser?sslmode=require", "postgres://db.example:5432/purser"],
  ["postgres://ada:p@ss@wo@rd@db.example/purser", "postgres://db.example/purser"],
  ["postgresql://ada:p@:ss@one:5432,two:5432/purser?user=a@b", "postgresql://one:5432,two:5432/purser"],
  ["postgres://db.example/purser?password=se@cret", "postgres://db.example/purser"],
  ["postgres://ada@localhost", "postgres://localhost"],
])("the shown name of a database does not contain its password: %s", (database_url, name) => {
  expect(describeStorage({ database_url, data_dir: "" })).toBe(name);
});
