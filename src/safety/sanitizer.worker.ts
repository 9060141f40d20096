import { parentPort } from "node:worker_threads";
import { pdfText } from "./reading/pdf-text.ts";
import { type SanitizeRequest, sanitize } from "./sanitize.ts";

/** What a thread is asked: a text to sanitize, or a PDF to read. */
export type ThreadRequest = SanitizeRequest | { readonly pdf: Uint8Array };

const port = parentPort;
if (port === null) throw new Error("sanitizer.worker.ts runs as a worker thread only");
port.on("message", async (request: ThreadRequest) => {
  port.postMessage("pdf" in request ? await pdfText(request.pdf) : sanitize(request));
});
