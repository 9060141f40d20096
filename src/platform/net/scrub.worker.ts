import { parentPort } from "node:worker_threads";
import { findHeld } from "./scrub.ts";
import type { ScanRequest } from "./secret-scanner.ts";

// Keeps nothing between two requests and answers with indexes only. So no secret stays here or goes back.

const port = parentPort;
if (port === null) throw new Error("scrub.worker.ts runs as a worker thread only");
port.on("message", ({ pieces, texts }: ScanRequest) => {
  port.postMessage(pieces.flatMap((piece) => [...findHeld(Buffer.from(piece.buffer), texts)]));
});
