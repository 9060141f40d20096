import type { Command } from "./command.ts";

const USERS_EXITS = { 0: "done", 1: "rejected; the message says why" };
const STOPPED =
  "On embedded storage the service must be stopped. On PostgreSQL it may run; the command needs the same settings.";

/** All commands in the order of the help. They are loaded only when they are called. */
export const COMMANDS: Readonly<Record<string, Command>> = {
  start: {
    summary: "Starts the service.",
    options: { check: { help: "checks the configuration and starts nothing: see purser check" } },
    example: "PURSER_ADMIN_KEY=… purser start",
    exits: { 0: "stopped by SIGTERM", 1: "it could not start or stop", 2: "a setting cannot be used" },
    load: () => import("./check.ts").then(({ start }) => start),
  },
  check: {
    summary: "Checks settings, file, keys and database, and changes nothing.",
    about: "It prints every problem at once, each with its solution.",
    options: { running: { help: "the service runs with these settings now: its ports may be in use" } },
    example: "DATABASE_URL=postgres://purser@db.example/purser PURSER_KEK_FILE=/etc/purser/kek purser check",
    exits: { 0: "no problems", 2: "problems; each is one line on stderr" },
    load: () => import("./check.ts").then(({ check }) => check),
  },
  migrate: {
    summary: "Creates or upgrades the tables, as a start does, and exits.",
    about: `${STOPPED} Back up first: a migration cannot be undone.`,
    options: {},
    example: "DATABASE_URL=postgres://purser@db.example/purser purser migrate",
    exits: { 0: "the database has the schema of this version", 1: "it failed and changed nothing" },
    load: () => import("./maintenance.ts").then(({ migrateDatabase }) => migrateDatabase),
  },
  audit: {
    summary: "Recomputes every balance from the ledger.",
    about: STOPPED,
    more_files_with: "verify",
    options: {
      verify: {
        value: "FILE...",
        help: "checks exported ledgers (CSV) and archived months (their manifests) without a database; each account's chain continues from file to file",
      },
      archive: { value: "FOLDER", help: "also checks all archived months in this folder against the database" },
    },
    example: "purser audit --verify archive-2026-01.jsonl archive-2026-02.jsonl transactions.csv",
    exits: { 0: "all invariants hold", 1: "violations, one line for each; or it could not look" },
    load: () => import("./audit.ts").then(({ audit }) => audit),
  },
  archive: {
    summary: "Moves closed months of the ledger's entries and usage events to files.",
    about: `${STOPPED} It can be killed at any point and started again. Nothing is deleted before its files are written and verified. Balances, usage and the audit do not change.`,
    options: {
      "older-than": {
        value: "MONTHS",
        help: "moves the months that ended at least so many whole months before this one; 1 or more",
      },
      to: { value: "FOLDER", help: "the folder for the files; it must keep them as long as the ledger is kept" },
    },
    example: "purser archive --older-than 12 --to /archive/purser",
    exits: { 0: "done; it prints the months", 1: "it failed; repeat it with the same folder" },
    load: () => import("./archive.ts").then(({ archive }) => archive),
  },
  backup: {
    summary: "Writes all tables to one file, from one consistent state, and reads it back.",
    about:
      "While the service runs, too. If the service has the embedded database open, the command asks it for the backup: it needs the same PURSER_ADMIN_KEY.",
    argument: "FILE",
    options: { url: { value: "URL", help: "the address of the running service; the default is http://HOST:PORT" } },
    example: "purser backup /backups/purser-2026-11-23.gz",
    exits: { 0: "the file is complete", 1: "it failed; there is no file" },
    load: () => import("./backup.ts").then(({ backup }) => backup),
  },
  restore: {
    summary: "Fills an empty database from a backup, compares all rows and audits the ledger.",
    about:
      "The target is the database of the settings: DATABASE_URL, or embedded storage in DATA_DIR. It can be killed and started again. The service starts only after a complete restore. The master keys are not in the backup.",
    argument: "FILE",
    options: {},
    example: "DATABASE_URL=postgres://purser@db.example/purser purser restore /backups/purser-2026-11-23.gz",
    exits: {
      0: "complete, and all invariants hold",
      1: "failed, or the audit has violations, or master keys are missing (every row is restored then)",
    },
    load: () => import("./backup.ts").then(({ restore }) => restore),
  },
  move: {
    summary: "Moves embedded storage to an empty PostgreSQL database.",
    about:
      "Stop the service first. It can be killed and started again. It compares all rows, audits both databases and prevents a later start on the embedded one.",
    options: {
      to: { value: "URL", help: "the PostgreSQL database, postgres://user:password@host:port/database" },
      cancel: { help: "gives up the move, so that the service starts on embedded storage again" },
    },
    example: "purser move --to postgres://purser:secret@db.example/purser",
    exits: { 0: "complete, and all invariants hold on both sides", 1: "failed, or an audit or the keys have problems" },
    load: () => import("./move.ts").then(({ move }) => move),
  },
  "rotate-keys": {
    summary: "Wraps every data key by the current master key, the first of PURSER_KEK.",
    about: `${STOPPED} It can be killed at any point and started again.`,
    options: {},
    example: 'PURSER_KEK="k2:…,k1:…" purser rotate-keys',
    exits: { 0: "done: the other master keys can be removed", 1: "it could not" },
    load: () => import("./maintenance.ts").then(({ rotateKeys }) => rotateKeys),
  },
  "create-user": {
    summary: "Creates a user with a first API key, which is shown once.",
    about: STOPPED,
    argument: "EMAIL",
    options: { "no-trial": { help: "no trial and no bonus: an empty account" } },
    example: "purser create-user ada@example.com",
    exits: USERS_EXITS,
    load: () => import("./users.ts").then(({ createUser }) => createUser),
  },
  grant: {
    summary: "Grants tokens to a user.",
    about: STOPPED,
    argument: "EMAIL_OR_ID",
    options: {
      tokens: { value: "N", help: "the amount, in billed tokens" },
      source: { value: "SOURCE", help: "bonus (default), top_up or subscription" },
      "expires-at": { value: "INSTANT", help: "an ISO 8601 instant; the default is in 12 months" },
      note: { value: "TEXT", help: "the reason; it is kept with the grant" },
    },
    example: "purser grant ada@example.com --tokens 625000 --note 'replaces the lost top-up'",
    exits: USERS_EXITS,
    load: () => import("./users.ts").then(({ grant }) => grant),
  },
  completion: {
    summary: "Prints the completion of commands and options for a shell.",
    about:
      "bash: source <(purser completion bash) in ~/.bashrc. zsh: the same with zsh in ~/.zshrc, after compinit. fish: purser completion fish | source in ~/.config/fish/config.fish.",
    argument: "SHELL",
    options: {},
    example: "purser completion bash",
    exits: { 0: "done" },
    load: () => import("./completion.ts").then(({ createCompletion }) => createCompletion(COMMANDS)),
  },
};
