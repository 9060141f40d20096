/** One server-sent event. */
export interface ServerEvent {
  id: string | null;
  event: string;
  data: string;
}

/** The events of a response, as they come. */
export async function* eventsOf(response: Response): AsyncGenerator<ServerEvent> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      pending += value;
      const blocks = pending.split(/\r?\n\r?\n/);
      pending = blocks.pop() ?? "";
      for (const block of blocks) {
        const event = parse(block);
        if (event !== null) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parse(block: string): ServerEvent | null {
  const event: ServerEvent = { id: null, event: "message", data: "" };
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const [, field, value = ""] = /^([a-z]+):? ?(.*)$/s.exec(line) ?? [];
    if (field === "data") data.push(value);
    else if (field === "event") event.event = value;
    else if (field === "id") event.id = value;
  }
  return data.length === 0 ? null : { ...event, data: data.join("\n") };
}
