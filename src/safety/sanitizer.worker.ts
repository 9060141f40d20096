import { parentPort } from "node:worker_threads";
import { type SanitizeRequest, sanitize } from "./sanitize.ts";

const port = parentPort;
if (port === null) throw new Error("sanitizer.worker.ts runs as a worker thread only");
port.on("message", (request: SanitizeRequest) => port.postMessage(sanitize(request)));
