import { createHmac } from "node:crypto";
import { Webhooks } from "@octokit/webhooks";
import { Webhook as StandardWebhook } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as Svix } from "svix";
import { describe, expect, test } from "vitest";
import {
  findDeliveryId,
  findDeliveryKey,
  findForgery,
  findSecretFault,
  newTriggerSecret,
} from "../../../src/agents/triggers/signatures.ts";
import type { Verify } from "../../../src/api/contract/triggers.ts";

const NOW_S = 1_764_000_000;

interface Vector {
  name: string;
  verify: Verify;
  secret: string;
  headers: Record<string, string>;
  body: string;
  now_s?: number;
}

const judged = ({ verify, secret, headers, body, now_s = NOW_S }: Vector) =>
  findForgery(verify, { header: (name) => headers[name], body }, { secrets: [secret], now_s });
const hmac = (secret: string, text: string, encoding: "hex" | "base64" = "hex") =>
  createHmac("sha256", secret).update(text).digest(encoding);

const BODY = '{"id":"evt_1","type":"invoice.paid"}';
const SLACK_BODY =
  "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
const SHOPIFY: Verify = { type: "hmac_sha256", header: "X-Shopify-Hmac-Sha256", prefix: "", encoding: "base64" };

const PUBLISHED: Vector[] = [
  {
    name: "GitHub: validating webhook deliveries, test values",
    verify: "github",
    secret: "It's a Secret to Everybody",
    headers: {
      "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    },
    body: "Hello, World!",
  },
  {
    name: "Standard Webhooks: the specification's example, also Svix's",
    verify: "standard_webhooks",
    secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    headers: {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    },
    body: '{"test": 2432232314}',
    now_s: 1_614_265_330,
  },
  {
    name: "Slack: verifying requests, the page's example",
    verify: "slack",
    secret: "8f742231b10e8888abcd99yyyzzz85a5",
    headers: {
      "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
      "x-slack-request-timestamp": "1531420618",
    },
    body: SLACK_BODY,
    now_s: 1_531_420_618,
  },
  {
    name: "Shopify: base64 of the HMAC with the client secret, by the page's code",
    verify: SHOPIFY,
    secret: "hush",
    headers: { "x-shopify-hmac-sha256": hmac("hush", '{"id":820982911946154508}', "base64") },
    body: '{"id":820982911946154508}',
  },
];

test.each(PUBLISHED)("the published example verifies, and no other body or secret does: $name", (vector) => {
  expect(judged(vector)).toBeNull();
  expect(judged({ ...vector, body: `${vector.body} ` })).toMatch(/does not match/);
  expect(judged({ ...vector, secret: newTriggerSecret(vector.verify) })).toMatch(/does not match/);
  expect(judged({ ...vector, headers: {} })).toMatch(/header/);
});

test("deliveries that the senders' own libraries sign verify", async () => {
  const standard = newTriggerSecret("standard_webhooks");
  const at = new Date(NOW_S * 1_000);
  const octokit = new Webhooks({ secret: "octo-secret" });
  const stripe_header = Stripe.webhooks.generateTestHeaderString({
    payload: BODY,
    secret: "whsec_stripe",
    timestamp: NOW_S,
  });
  const signed: [Verify, string, Record<string, string>][] = [
    ["github", "octo-secret", { "x-hub-signature-256": await octokit.sign(BODY) }],
    ["stripe", "whsec_stripe", { "stripe-signature": stripe_header }],
    [
      "standard_webhooks",
      standard,
      {
        "webhook-id": "msg_1",
        "webhook-timestamp": String(NOW_S),
        "webhook-signature": new StandardWebhook(standard).sign("msg_1", at, BODY),
      },
    ],
    [
      "standard_webhooks",
      standard,
      {
        "svix-id": "msg_1",
        "svix-timestamp": String(NOW_S),
        "svix-signature": `v1,bm9uZQ== ${new Svix(standard).sign("msg_1", at, BODY)}`,
      },
    ],
    ["bearer", "a-long-token", { authorization: "Bearer a-long-token" }],
  ];
  for (const [verify, secret, headers] of signed) {
    const vector = { name: "", verify, secret, headers, body: BODY };
    expect(judged(vector), JSON.stringify(verify)).toBeNull();
    expect(judged({ ...vector, secret: "another-secret" }), JSON.stringify(verify)).not.toBeNull();
  }
});

test("a signature without its prefix is rejected, and the reason quotes the prefix", () => {
  const headers = { "x-hub-signature-256": hmac("s", BODY) };
  expect(judged({ name: "", verify: "github", secret: "s", headers, body: BODY })).toBe(
    'The header X-Hub-Signature-256 does not begin with "sha256=". Check the secret and how the trigger verifies deliveries.',
  );
});

describe("a signed timestamp", () => {
  const at = (seconds: number): Vector => ({
    name: "",
    verify: "stripe",
    secret: "s",
    headers: { "stripe-signature": `t=${seconds},v1=${hmac("s", `${seconds}.${BODY}`)}` },
    body: BODY,
  });

  test("may differ from the time by five minutes in both directions, and not by more", () => {
    for (const near of [-300, -1, 0, 300]) expect(judged(at(NOW_S + near)), String(near)).toBeNull();
    for (const far of [-301, 301]) expect(judged(at(NOW_S + far)), String(far)).toMatch(/5 minutes/);
  });

  test("that is no number of seconds is rejected even if it is signed", () => {
    for (const text of ["", "NaN", "1e9", "-5"]) {
      const headers = { "stripe-signature": `t=${text},v1=${hmac("s", `${text}.${BODY}`)}` };
      expect(judged({ ...at(NOW_S), headers })).toMatch(/5 minutes/);
    }
  });
});

test("a signature of another length, an empty one and one in another encoding do not match", () => {
  const right = hmac("s", BODY);
  for (const sent of [
    "",
    right.slice(2),
    `${right}00`,
    hmac("s", BODY, "base64"),
    right.toUpperCase().replace("A", "G"),
  ]) {
    const vector = { name: "", verify: "github" as const, secret: "s", body: BODY };
    expect(judged({ ...vector, headers: { "x-hub-signature-256": `sha256=${sent}` } }), sent).not.toBeNull();
  }
});

test("the former secret verifies beside the present one", () => {
  const headers: Record<string, string> = { "x-hub-signature-256": `sha256=${hmac("old", BODY)}` };
  const delivery = { header: (name: string) => headers[name], body: BODY };
  expect(findForgery("github", delivery, { secrets: ["new", "old"], now_s: NOW_S })).toBeNull();
  expect(findForgery("github", delivery, { secrets: ["new"], now_s: NOW_S })).not.toBeNull();
});

test("a delivery is known by its sender's name for it, or by its body", () => {
  const idOf = (verify: Verify, headers: Record<string, string>, value: Record<string, unknown> = {}) =>
    findDeliveryId(verify, { header: (name) => headers[name], body: "" }, value);
  expect(idOf("github", { "x-github-delivery": "72d3162e" })).toBe("72d3162e");
  expect(idOf("standard_webhooks", { "webhook-id": "msg_1" })).toBe("msg_1");
  expect(idOf("standard_webhooks", { "svix-id": "msg_2" })).toBe("msg_2");
  expect(idOf("stripe", {}, { id: "evt_1" })).toBe("evt_1");
  expect(idOf("slack", {}, { event_id: "Ev1" })).toBe("Ev1");
  expect(idOf(SHOPIFY, { "x-shopify-webhook-id": "b54557e4" })).toBe("b54557e4");
  expect(idOf("bearer", { "idempotency-key": "mine" })).toBe("mine");
  expect(idOf("stripe", {}, { id: 5 })).toBeNull();
  expect(findDeliveryKey("github", "1", "a")).toBe(findDeliveryKey("github", "1", "b"));
  expect(findDeliveryKey("github", null, "a")).not.toBe(findDeliveryKey("github", null, "b"));
  expect(findDeliveryKey("bearer", null, "a")).toBeNull();
});

test("a secret of Standard Webhooks has the form that its libraries take", () => {
  expect(findSecretFault("standard_webhooks", newTriggerSecret("standard_webhooks"))).toBeNull();
  expect(findSecretFault("standard_webhooks", "It's a Secret to Everybody")).toMatch(/whsec_/);
  expect(findSecretFault("github", "It's a Secret to Everybody")).toBeNull();
});
