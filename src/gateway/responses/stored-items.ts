import type { InputItem, ResponseRequest } from "../../api/contract/responses.ts";
import { newId } from "../../platform/lib/ids.ts";

/** The items of a request as they are stored, and as they are listed. */

/** Each has an id that no other item of its request has. */
export type StoredItem = InputItem & { type: string; id: string };

/** OpenAI's beginnings of ids. */
const ID_PREFIX: ReadonlyMap<string, string> = new Map([
  ["message", "msg"],
  ["reasoning", "rs"],
  ["function_call", "fc"],
  ["function_call_output", "fco"],
  ["custom_tool_call", "ctc"],
  ["custom_tool_call_output", "ctco"],
]);

/** The items of a request, each with its type and an id. */
export function storedItems(input: ResponseRequest["input"]): StoredItem[] {
  const items = typeof input === "string" ? [{ role: "user" as const, content: input }] : input;
  const taken = new Set<unknown>();
  return items.map((item) => {
    const given = item as { id?: unknown; type?: string | null };
    const type = given.type ?? "message";
    const is_free = typeof given.id === "string" && given.id !== "" && !taken.has(given.id);
    const id = is_free ? (given.id as string) : `${ID_PREFIX.get(type) ?? "item"}_${newId()}`;
    taken.add(id);
    return { ...item, type, id } as StoredItem;
  });
}

/** The item in the form that OpenAI lists, whatever short form it was sent in. */
export function listedItem(item: StoredItem): StoredItem {
  const { status, content, role } = item as { status?: unknown; content?: unknown; role?: unknown };
  if (item.type !== "message")
    return item.type === "reasoning" ? item : ({ ...item, status: status ?? "completed" } as StoredItem);
  const text =
    role === "assistant"
      ? { type: "output_text", text: content, annotations: [] }
      : { type: "input_text", text: content };
  const parts = typeof content === "string" ? [text] : (content as object[]).map(listedPart);
  return { ...item, status: status ?? "completed", content: parts } as StoredItem;
}

function listedPart(part: object): object {
  const { type, detail, annotations } = part as { type?: unknown; detail?: unknown; annotations?: unknown };
  if (type === "input_image") return { ...part, detail: detail ?? "auto" };
  return type === "output_text" ? { ...part, annotations: annotations ?? [] } : part;
}
