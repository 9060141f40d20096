import type { MessagesRequest } from "../../api/contract/messages.ts";

/**
 * Tools that Anthropic defines and the caller executes. Anthropic's models know them by their type; other models get
 * them as functions. Pure.
 */

export type Tool = NonNullable<MessagesRequest["tools"]>[number];

interface ClientTool {
  name: string;
  description: string;
  properties: Readonly<Record<string, object>>;
  required: readonly string[];
}

const text = (description?: string) => ({ type: "string", ...(description === undefined ? {} : { description }) });
const oneOf = (values: readonly string[]) => ({ type: "string", enum: values });
const integers = (count: number, description: string) => ({
  type: "array",
  items: { type: "integer" },
  minItems: count,
  maxItems: count,
  description,
});

const BASH: ClientTool = {
  name: "bash",
  description: "Runs a command in a bash session that keeps its state, and returns its output.",
  properties: { command: text(), restart: { type: "boolean", description: "restarts the session, without a command" } },
  required: [],
};

const COMMANDS = ["view", "create", "str_replace", "insert"];
const FILE = {
  path: text(),
  view_range: integers(2, "for view: the first and the last line; -1 is the end of the file"),
  file_text: text("for create: the whole file"),
  old_str: text("for str_replace: a text that is in the file once"),
  new_str: text("for str_replace: the new text"),
  insert_line: { type: "integer", description: "for insert: the line before the new text; 0 is the file's beginning" },
};
const INSERT_TEXT = { insert_text: text("for insert: the new text") };

const editor = (name: string, commands: readonly string[], fields: object): ClientTool => ({
  name,
  description: "Views, creates and edits files, and lists directories.",
  properties: { command: oneOf(commands), ...FILE, ...fields },
  required: ["command", "path"],
});
// Programs for the older versions read the text of `insert` from `new_str`.
const NEW_STR = { new_str: text("for str_replace and insert: the new text") };
const OLD_EDITOR = editor("str_replace_editor", [...COMMANDS, "undo_edit"], NEW_STR);

const MEMORY: ClientTool = {
  name: "memory",
  description:
    "Files with notes that outlast this conversation. All paths begin with /memories. View /memories before you begin.",
  properties: {
    command: oneOf([...COMMANDS, "delete", "rename"]),
    ...FILE,
    ...INSERT_TEXT,
    old_path: text("for rename"),
    new_path: text("for rename"),
  },
  required: ["command"],
};

const POINT = integers(2, "x and y in pixels from the top left corner");
const KEYS = { text: text("what to type, or keys such as ctrl+s") };
const CLICKS = ["left_click", "right_click", "middle_click", "double_click", "left_click_drag"];
const OLD_ACTIONS = ["screenshot", "cursor_position", "mouse_move", ...CLICKS, "key", "type"];
const ACTIONS = [...OLD_ACTIONS, "triple_click", "left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait"];
const MOVES = {
  coordinate: POINT,
  start_coordinate: { ...POINT, description: "for left_click_drag: where it begins" },
  ...KEYS,
  scroll_direction: oneOf(["up", "down", "left", "right"]),
  scroll_amount: { type: "integer", description: "for scroll: clicks of the wheel" },
  duration: { type: "number", description: "for hold_key and wait: seconds" },
};
const REGION = { region: integers(4, "for zoom: x and y of the top left and of the bottom right corner") };

const computer = (actions: readonly string[], fields: object): ClientTool => ({
  name: "computer",
  description: "Controls a computer by mouse and keyboard. Take a screenshot to see its screen.",
  properties: { action: oneOf(actions), ...fields },
  required: ["action"],
});

/** A map, because callers choose the types: `constructor` is in every object. */
const CLIENT_TOOLS: ReadonlyMap<string, ClientTool> = new Map([
  ["bash_20241022", BASH],
  ["bash_20250124", BASH],
  ["text_editor_20241022", OLD_EDITOR],
  ["text_editor_20250124", OLD_EDITOR],
  ["text_editor_20250429", editor("str_replace_based_edit_tool", COMMANDS, NEW_STR)],
  ["text_editor_20250728", editor("str_replace_based_edit_tool", COMMANDS, INSERT_TEXT)],
  ["memory_20250818", MEMORY],
  ["computer_20241022", computer(OLD_ACTIONS, { coordinate: POINT, ...KEYS })],
  ["computer_20250124", computer(ACTIONS, MOVES)],
  ["computer_20251124", computer([...ACTIONS, "zoom"], { ...MOVES, ...REGION })],
]);

/** The names in `anthropic-beta` without which Anthropic rejects a tool. */
const BETAS: ReadonlyMap<string, string> = new Map([
  ["bash_20241022", "computer-use-2024-10-22"],
  ["text_editor_20241022", "computer-use-2024-10-22"],
  ["computer_20241022", "computer-use-2024-10-22"],
  ["computer_20250124", "computer-use-2025-01-24"],
  ["computer_20251124", "computer-use-2025-11-24"],
]);

/** Whether the caller executes a tool of this type, which Anthropic defines. */
export function isClientTool({ type }: Tool): boolean {
  return CLIENT_TOOLS.has(String(type));
}

/** The types that are the same tool as this one in other versions: `bash_20241022` and another for `bash_20990101`. */
export function readVersions(type: string): string[] {
  const getName = (each: string) => each.replace(/_\d{8}$/, "");
  return [...CLIENT_TOOLS.keys()].filter((known) => getName(known) === getName(type));
}

/** The names in `anthropic-beta` that these tools need. */
export function readBetas(tools: readonly Tool[]): string[] {
  return tools.flatMap(({ type }) => BETAS.get(String(type)) ?? []);
}

/** Whether the results of a tool are pictures. */
export function needsVision(tool: Tool): boolean {
  return CLIENT_TOOLS.get(String(tool.type))?.name === "computer";
}

/** The tool with its schema, for models that do not know its type. The caller's own tools are returned as they are. */
export function withSchema(tool: Tool): Tool {
  const known = CLIENT_TOOLS.get(String(tool.type));
  if (known === undefined) return tool;
  const { name, description, properties, required } = known;
  const { cache_control, display_width_px: width, display_height_px: height } = tool as Record<string, unknown>;
  const is_known = typeof width === "number" && typeof height === "number";
  const screen = is_known ? ` The screen has ${width} x ${height} pixels.` : "";
  return {
    name,
    description: description + screen,
    input_schema: { type: "object", properties, required, additionalProperties: false },
    cache_control,
  } as Tool;
}
