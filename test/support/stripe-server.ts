import { createHash } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { parseForm, type StripeObject } from "./stripe-objects.ts";

/** Stripe's protocol: bearer key, forms, idempotency keys and errors. The caller provides the routes. */

export const STRIPE_KEY = "sk_test_local";

export type Form = Record<string, unknown>;
export type Route = [method: string, pattern: RegExp, handle: (form: Form, id: string) => StripeObject | object];

interface Refused {
  status: number;
  error: { type: string; code?: string; message: string };
}

class StripeRefusal extends Error {
  readonly refused: Refused;
  constructor(refused: Refused) {
    super(refused.error.message);
    this.refused = refused;
  }
}

export const noSuch = () =>
  new StripeRefusal({
    status: 404,
    error: { type: "invalid_request_error", code: "resource_missing", message: "No such object" },
  });
export const invalid = (message: string) =>
  new StripeRefusal({ status: 400, error: { type: "invalid_request_error", message } });
export const declined = () =>
  new StripeRefusal({
    status: 402,
    error: { type: "card_error", code: "card_declined", message: "Your card was declined." },
  });

const KEY_REUSED = {
  type: "idempotency_error",
  message: "Keys for idempotent requests can only be used with the same parameters",
};

/** Serves these routes on a free port of loopback. */
export async function serveStripe(routes: Route[]) {
  const answers = new Map<string, { hash: string; status: number; body: string }>();
  const requests: { method: string; path: string; form: Form }[] = [];
  let lost_answer: RegExp | null = null;
  let wrong_answer: { call: RegExp; status: number; body: string } | null = null;
  let behind_ms = 0;
  let before_answer: { call: RegExp; act: () => Promise<unknown> } | null = null;

  const handle = (request: IncomingMessage, path: string, form: Form): { status: number; body: string } => {
    requests.push({ method: request.method ?? "", path, form });
    try {
      if (request.headers.authorization !== `Bearer ${STRIPE_KEY}`)
        throw new StripeRefusal({ status: 401, error: { type: "invalid_request_error", message: "Invalid API Key" } });
      const route = routes.find(([method, pattern]) => method === request.method && pattern.test(path));
      if (route === undefined) throw noSuch();
      return { status: 200, body: JSON.stringify(route[2](form, route[1].exec(path)?.[1] ?? "")) };
    } catch (error) {
      if (!(error instanceof StripeRefusal)) throw error;
      return { status: error.refused.status, body: JSON.stringify({ error: error.refused.error }) };
    }
  };
  const answer = (request: IncomingMessage, path: string, text: string): { status: number; body: string } => {
    const key = request.headers["idempotency-key"];
    const hash = createHash("sha256").update(`${request.method} ${path} ${text}`).digest("hex");
    const known = typeof key === "string" ? answers.get(key) : undefined;
    if (known !== undefined) {
      return known.hash === hash ? known : { status: 400, body: JSON.stringify({ error: KEY_REUSED }) };
    }
    const done = { hash, ...handle(request, path, parseForm(text)) };
    if (typeof key === "string" && done.status < 500) answers.set(key, done);
    return done;
  };
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const [path = "", query = ""] = (request.url ?? "").split("?");
    const is_wrong = wrong_answer?.call.test(`${request.method} ${path}`) ? wrong_answer : null;
    const { status, body } = is_wrong ?? answer(request, path, text || query);
    if (before_answer?.call.test(`${request.method} ${path}`)) await before_answer.act();
    if (lost_answer?.test(`${request.method} ${path}`)) return void response.destroy();
    const date = new Date(Date.now() - behind_ms).toUTCString();
    response.writeHead(status, { "Content-Type": "application/json", "Request-Id": "req_local", Date: date }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    /** Executes matching calls, but drops their answers; null: answers all again. */
    loseAnswers: (call: RegExp | null) => {
      lost_answer = call;
    },
    /** Answers matching calls with this, and does not execute them; null: executes all again. */
    answerWith: (...[call, answer]: [call: RegExp, answer: { status: number; body: string }] | [null]) => {
      wrong_answer = call === null || answer === undefined ? null : { call, ...answer };
    },
    /** Runs `act` before the answers to matching calls; null: answers at once again. */
    beforeAnswer: (...[call, act]: [call: RegExp, act: () => Promise<unknown>] | [null]) => {
      before_answer = call === null || act === undefined ? null : { call, act };
    },
    /** Sets Stripe's clock this much behind the machine's. */
    runBehind: (seconds: number) => {
      behind_ms = seconds * 1_000;
    },
    /** A day passes: Stripe forgets idempotency keys. */
    forgetKeys: () => answers.clear(),
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
