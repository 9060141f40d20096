import { expect } from "vitest";
import { ADMIN_KEY } from "./service.ts";

const read = async (url: string) => {
  const response = await fetch(`${url}/metrics`, { headers: { Authorization: `Bearer ${ADMIN_KEY}` } });
  return response.text();
};

/** The metrics of a node, made after this call: the service makes their text once a second. */
export async function metricsOf(url: string): Promise<string> {
  const before = await read(url);
  let text = before;
  // The text has this process's times, so another one differs.
  await expect.poll(async () => (text = await read(url)), { interval: 50 }).not.toBe(before);
  return text;
}
