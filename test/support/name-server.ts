import { createSocket } from "node:dgram";
import { once } from "node:events";

/** A name server on loopback. It does not answer unknown names under `silent.example`. */
export async function startNameServer(addresses: Record<string, string>) {
  const socket = createSocket("udp4");
  const asked: string[] = [];
  socket.on("message", (message, { port, address }) => {
    const { name, end } = questionOf(message);
    asked.push(name);
    const known = message.readUInt16BE(end) === 1 ? addresses[name] : undefined;
    if (name.endsWith("silent.example") && known === undefined) return;
    const header = Buffer.alloc(12);
    message.copy(header, 0, 0, 2);
    // an answer, recursion available; 3: the name does not exist
    header.writeUInt16BE(addresses[name] === undefined ? 0x8183 : 0x8180, 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(known === undefined ? 0 : 1, 6);
    const question = message.subarray(12, end + 4);
    // a pointer to the name in the question; A, IN, 60 s, 4 bytes
    const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...(known ?? "").split(".").map(Number)]);
    socket.send(Buffer.concat([header, question, ...(known === undefined ? [] : [answer])]), port, address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    close: () => new Promise<void>((resolve) => socket.close(() => resolve())),
  };
}

function questionOf(message: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
    labels.push(message.subarray(at + 1, at + 1 + length).toString("latin1"));
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), end: at + 1 };
}
