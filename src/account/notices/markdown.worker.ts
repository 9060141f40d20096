import { parentPort } from "node:worker_threads";
import { micromark } from "micromark";
import { gfm, gfmHtml } from "micromark-extension-gfm";

const port = parentPort;
if (port === null) throw new Error("markdown.worker.ts must run as a worker thread.");
// Without the beginning of a picture, its text is a link. Micromark escapes HTML and drops addresses such as javascript:.
const options = {
  extensions: [gfm(), { disable: { null: ["labelStartImage"] } }],
  htmlExtensions: [gfmHtml()],
};
port.on("message", (text: string) => {
  port.postMessage(micromark(text, options).replaceAll("!<a href=", "<a href="));
});
