import { type Browser, openBrowser } from "./browser.ts";
import type { Answer, Service } from "./service.ts";

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

/** The token in a mailed link. */
export function tokenOf(link: string | undefined): string {
  return link?.split("#token=")[1] ?? "";
}
