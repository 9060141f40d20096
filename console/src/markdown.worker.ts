import { parseMarkdown } from "./markdown.ts";

/** Parses Markdown beside the page, which stays usable however long a text takes. */
self.onmessage = ({ data }: MessageEvent<string>) => self.postMessage(parseMarkdown(data));
