import { parentPort } from "node:worker_threads";
import { pdfText } from "./reading/pdf-text.ts";
import { examine, type SanitizeRequest } from "./sanitize.ts";

/** A request to a thread: content to examine, or a PDF to read. */
export type ThreadRequest = SanitizeRequest | { readonly pdf_bytes: Uint8Array };

const port = parentPort;
if (port === null) throw new Error("sanitizer.worker.ts must run as a worker thread.");
port.on("message", async (request: ThreadRequest) => {
  port.postMessage("pdf_bytes" in request ? await pdfText(request.pdf_bytes) : examine(request));
});
