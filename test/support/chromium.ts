import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";

const NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/** The machine's own Chromium, null if there is none. Debian: `apt-get install chromium-headless-shell`. */
export function chromiumBinary(): string | null {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const candidates = folders.flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return candidates.find(isExecutable) ?? null;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A busy machine draws pages slowly, so only a page that hangs takes this long. */
const PATIENCE_MS = 120_000;

/** A browser without a window. */
export async function startChromium(): Promise<Browser> {
  const executablePath = chromiumBinary();
  if (executablePath === null) throw new Error("no Chromium on this machine: apt-get install chromium-headless-shell");
  // Its sandbox needs rights that containers do not have, and it only visits the service under test.
  const args = ["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer"];
  const browser = await chromium.launch({ executablePath, args });
  return browser.on("context", (context) => context.setDefaultTimeout(PATIENCE_MS));
}

let shared: Promise<Browser> | undefined;

/** The browser that the files of one worker share. It ends with the worker's process. */
export async function sharedChromium(): Promise<Browser> {
  if (!(await shared)?.isConnected()) shared = startChromium();
  return await (shared as Promise<Browser>);
}

/** The text of the page's main part, once it contains `text`. */
export async function shows(page: Page, text: string | RegExp): Promise<void> {
  await page.getByText(text).first().waitFor();
}
