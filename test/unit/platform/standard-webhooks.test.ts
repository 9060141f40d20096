import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { realNowMs } from "../../../src/platform/lib/clock.ts";
import { newWebhookSecret, webhookHeaders } from "../../../src/platform/net/standard-webhooks.ts";

const nowS = () => Math.floor(realNowMs() / 1000);

describe("Standard Webhooks signatures", () => {
  it("are those of the reference implementation", () => {
    for (const body of ["{}", '{"type":"run.failed","data":{"error_message":"Grüße 🌍"}}']) {
      const secret = newWebhookSecret();
      const signed = { id: "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", timestamp_s: 1_674_087_231, body };
      const theirs = new Webhook(secret).sign(signed.id, new Date(signed.timestamp_s * 1000), body);
      expect(webhookHeaders([secret], signed)["webhook-signature"]).toBe(theirs);
    }
  });

  it("are those of the specification's example", () => {
    const secret = "whsec_plJ3nmyCDGBKInavdOK15jsl";
    const body = '{"event_type":"ping","data":{"success":true}}';
    const signed = { id: "msg_loFOjxBNrRLzqYUf", timestamp_s: 1_731_705_121, body };
    expect(webhookHeaders([secret], signed)["webhook-signature"]).toBe(
      "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
    );
  });

  it("are invalid for another body, id, time or secret", () => {
    const secret = newWebhookSecret();
    const timestamp_s = nowS();
    const headers = webhookHeaders([secret], { id: "a", timestamp_s, body: "{}" });
    expect(() => new Webhook(secret).verify("{}", headers)).not.toThrow();
    expect(() => new Webhook(secret).verify('{"x":1}', headers)).toThrow();
    expect(() => new Webhook(secret).verify("{}", { ...headers, "webhook-id": "b" })).toThrow();
    expect(() =>
      new Webhook(secret).verify("{}", { ...headers, "webhook-timestamp": String(timestamp_s - 1) }),
    ).toThrow();
    expect(() => new Webhook(newWebhookSecret()).verify("{}", headers)).toThrow();
  });

  it("use secrets of 32 random bytes, all different", () => {
    const secrets = Array.from({ length: 100 }, newWebhookSecret);
    expect(new Set(secrets).size).toBe(100);
    for (const secret of secrets) expect(Buffer.from(secret.slice("whsec_".length), "base64")).toHaveLength(32);
  });
});
