import { createServer, type Socket } from "node:net";

/**
 * A model provider that answers at once, or after 200 ms for the model "slow": OpenAI's chat completions, whole or as
 * 64 separately written chunks. It parses as little HTTP as possible, so that it is never the bottleneck.
 */

const CHUNKS = 64;
const SLOW_MS = 200;
const HEAD_END = "\r\n\r\n";

const usage = { prompt_tokens: 40, completion_tokens: CHUNKS, total_tokens: 40 + CHUNKS };
const about = { id: "chatcmpl-bench", created: 1_750_000_000, model: "instant" };

function wholeAnswer(): Buffer {
  const content = "A train leaves the station at noon and no passenger knows where it goes. ".repeat(4).trim();
  const choices = [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }];
  const body = JSON.stringify({ ...about, object: "chat.completion", choices, usage });
  return Buffer.from(
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}${HEAD_END}${body}`,
  );
}

function streamedAnswer(): Buffer[] {
  const chunk = (fields: object) => ({ ...about, object: "chat.completion.chunk", ...fields });
  const delta = (delta: object, finish_reason: string | null = null) =>
    chunk({ choices: [{ index: 0, delta, finish_reason }] });
  const words = Array.from({ length: CHUNKS }, (_, index) => delta({ content: ` word${index}` }));
  const chunks = [
    delta({ role: "assistant", content: "" }),
    ...words,
    delta({}, "stop"),
    chunk({ choices: [], usage }),
  ];
  const events = [...chunks.map((each) => `data: ${JSON.stringify(each)}\n\n`), "data: [DONE]\n\n"];
  const head = `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked${HEAD_END}`;
  const frames = events.map((event) => `${Buffer.byteLength(event).toString(16)}\r\n${event}\r\n`);
  return [head, ...frames, "0\r\n\r\n"].map((piece) => Buffer.from(piece));
}

const WHOLE = wholeAnswer();
const STREAMED = streamedAnswer();

async function write(socket: Socket, pieces: readonly Buffer[]): Promise<void> {
  for (const piece of pieces) {
    if (socket.destroyed) return;
    socket.write(piece);
    // Another turn of the event loop, so that each piece is sent alone.
    await new Promise(setImmediate);
  }
}

function serve(socket: Socket): void {
  let received = "";
  const answer = (body: string) => {
    const send = () => (body.includes('"stream":true') ? write(socket, STREAMED) : socket.write(WHOLE));
    if (body.includes('"slow"')) setTimeout(send, SLOW_MS);
    else send();
  };
  socket.on("error", () => {});
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
    const end = received.indexOf(HEAD_END);
    if (end === -1) return;
    const length = /\r\ncontent-length: *(\d+)/i.exec(received.slice(0, end))?.[1];
    const body = received.slice(end + HEAD_END.length);
    const isWhole = length === undefined ? body.endsWith("0\r\n\r\n") : body.length >= Number(length);
    if (!isWhole) return;
    received = "";
    answer(body);
  });
}

const server = createServer({ noDelay: true }, serve);
server.listen(0, "127.0.0.1", 4096, () => {
  const address = server.address();
  if (address !== null && typeof address === "object") console.log(`listening on http://127.0.0.1:${address.port}`);
});
