import { expect } from "vitest";
import { type Browser, openBrowser } from "./browser.ts";
import type { MailServer } from "./mail-server.ts";
import type { Answer, Client, Service } from "./service.ts";

/** Signs up like a person: directly on embedded storage, otherwise with the link that the service writes to its log. */
export async function signUp(
  service: Service,
  { email, password }: { email: string; password: string },
  browser: Browser = openBrowser(service.url),
): Promise<Answer> {
  const answer = await browser.post("/auth/sign-up/email", { email, password });
  if (answer.status !== 202) return answer;
  return browser.post("/auth/verify-email", { token: tokenOf(service.linkTo(email.toLowerCase())), password });
}

/**
 * Signs up with a mailed link, behind a trusted proxy of `origin`, so the address is confirmed. `from`: the person's IP
 * address.
 */
export async function signUpByMail(
  service: Service,
  mails: MailServer,
  { email, origin, from }: { email: string; origin: string; from: string },
): Promise<Browser> {
  const browser = openBrowser(service.url, origin);
  const headers = { Origin: origin, "X-Forwarded-For": from };
  const person = { ...browser, post: (path: string, body?: unknown) => browser.post(path, body, headers) };
  await person.post("/auth/sign-up/email", { email });
  await expect.poll(() => mails.to(email).length).toBe(1);
  const token = tokenOf(mails.to(email)[0]?.link);
  const verified = await person.post("/auth/verify-email", { token, password: "correct horse battery" });
  expect(verified.status).toBe(201);
  mails.received.splice(0);
  return person;
}

/** A person who has signed up with a mailed link, has tokens, and calls with an API key. */
export async function newPersonByMail(
  service: Service,
  mails: MailServer,
  { tokens, ...person }: { email: string; origin: string; from: string; tokens: number },
): Promise<Client> {
  const browser = await signUpByMail(service, mails, person);
  const { id: user_id } = (await browser.get("/users/me")).body;
  const { key } = (await browser.post("/api-keys", { name: "k" })).body;
  await service.admin.post(`/api/v1/admin/users/${user_id}/grants`, { amount_tokens: tokens, source: "top_up" });
  return { user_id, ...service.as(key) };
}

/** The token in a mailed link. */
export function tokenOf(link: string | undefined): string {
  return link?.split("#token=")[1] ?? "";
}
